"""The page of `transduce label` in a real browser: sessions by keys, a killed server, two windows, widths, names."""

import time

import numpy as np
import pandas as pd
import pytest

from tests.runs.browser import CHROMIUM, Browser
from tests.runs.label_window import CHOSEN, LIMIT, SAVED, Server, Window
from tests.runs.test_report_browser import luminance

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="no chromium is installed")]
SAID = "document.getElementById('said').textContent"
MARKED = "document.querySelectorAll('.item.marked').length"


@pytest.fixture
def serve(tmp_path, child_environment):
    """Starts servers, which end with the test."""
    servers = []

    def start(*words):
        servers.append(Server(tmp_path, child_environment, *words))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def browser(tmp_path):
    with Browser(tmp_path / "browser") as made:
        yield made


@pytest.fixture
def table(tmp_path):
    """Rows in three groups, with texts to look at that contain markup."""
    generator = np.random.default_rng(0)
    centres = 3 * generator.normal(size=(3, 6))
    rows = np.arange(90)
    features = centres[rows % 3] + generator.normal(size=(90, 6))
    texts = [f"<b>group {row % 3}</b> " + "long words " * 30 for row in rows]
    frame = pd.DataFrame({"text": texts, "emb": list(features.astype(np.float32))})
    frame.to_parquet(tmp_path / "table.parquet")
    return "table.parquet", "--features", "emb", "--show", "text"


def key_of(title):
    return str(int(title) % 3 + 1)


def test_a_session_in_which_the_server_is_killed(tmp_path, table, serve, browser):
    server = serve(*table, "--classes", "a,b")
    window = Window(browser, server)
    browser("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "downloads"))
    window.add("c")
    assert server.state()["keys"] == {"a": "1", "b": "2", "c": "3"}
    given = {}

    def label():
        title = window.current()
        window.press(key_of(title))
        given[title] = "abc"[int(title) % 3]

    for _ in range(12):
        label()
    window.wait(SAVED)
    window.wait(f"{SAID}.endsWith(', 12 of 90.')")
    window.current()
    server.kill()
    label()
    window.wait("document.querySelector('.notice button')")
    assert "The server does not answer" in window.text("notices")
    assert "1 answer not saved yet: kept in this page." in window.text("notices")
    browser("Page.reload")  # the answer is kept, as long as the tab is, which warns of its loss
    while "Page.javascriptDialogOpening" not in browser._events:
        browser._note(browser._next())
    browser("Page.handleJavaScriptDialog", accept=True)
    server.start()
    window = Window(browser, server)
    window.wait(f"{SAVED} && document.getElementById('counts').textContent.includes('13 of 90')")
    assert server.state()["labelled"] == 13
    label()
    window.wait(SAVED)
    last = list(given)[-1]
    window.press("Backspace")
    window.wait(f"{SAID}.startsWith('Undone: {last}')")
    assert window.current() == last
    given.pop(last)
    window.press("-")
    window.wait(f"{SAVED} && {SAID}.startsWith('Saved as none')")
    window.current()
    window.press(" ")
    while len(given) < 30:
        label()
    window.wait(SAVED)
    window.wait("document.getElementById('estimate').textContent.includes('95')")
    state = server.state()
    assert (state["labelled"], state["none"], state["skipped"]) == (30, 1, 1)
    browser.value("document.querySelector('[data-format=parquet]').click()")
    end = time.monotonic() + LIMIT
    while not (files := list((tmp_path / "downloads").glob("*.parquet"))):
        assert time.monotonic() < end
        time.sleep(0.05)
    found = pd.read_parquet(files[0]).dropna(subset="label")
    assert dict(zip(found["id"], found["label"], strict=True)) == given
    assert {address.split("/")[2] for address in browser.requests if address.startswith("http")} == {
        f"127.0.0.1:{server.port}"
    }


def test_members_of_a_class_are_confirmed_at_once(table, serve, browser):
    server = serve(*table, "--classes", "a,b,c", "batch=6")
    window = Window(browser, server)
    for _ in range(12):
        window.press(key_of(window.current()))
    window.wait(SAVED)
    window.wait("document.getElementById('counts').textContent.match(/12 of 90 labelled$/)")
    press = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))"
    browser.value(f"['1', '2', '3'].forEach((key) => {press})")
    window.wait(f"{SAVED} && document.getElementById('counts').textContent.startsWith('15 of 90')")
    for left in (14, 13, 12):  # one by one
        window.press("Backspace")
        window.wait(f"document.getElementById('counts').textContent.startsWith('{left} of 90')")
    window.press("Enter")  # confirms in the grid alone
    window.click("tab-grid")
    window.wait(f"{MARKED} > 3")
    titles = browser.value("[...document.querySelectorAll('.item .title')].map(e => e.textContent)")
    assert np.mean([int(title) % 3 == 0 for title in titles]) > 0.9  # of class a
    browser.value("document.querySelector('.item').focus()")
    marked = browser.value(MARKED)
    window.press(" ")  # is none
    window.wait(f"{MARKED} === {marked - 1}")
    window.press("ArrowRight")
    corrected = browser.value(f"{CHOSEN}.querySelector('.title').textContent")
    window.press("2")
    window.wait(f"{SAID}.startsWith('Saved as b')")
    window.press("Enter")
    window.wait(f"{SAVED} && {SAID}.startsWith('Saved {marked - 2} answers')")
    window.wait("!document.getElementById('counts').textContent.includes('predicting')")
    shown = browser.value("[...document.querySelectorAll('.item')].map(e => [e.innerText, e.className])")
    assert not any("%" in text for text, _ in shown)  # probabilities are not calibrated
    assert [name for _, name in shown if "marked" not in name] == ["item open"]  # none stays unmarked
    state = server.state()
    assert state["labelled"] == 12 + marked - 1
    assert next(row["labelled"] for row in state["classes"] if row["name"] == "b") >= 1
    window.press("Backspace")
    window.wait(f"{SAID}.startsWith('Undone')")
    assert server.state()["labelled"] == 13  # all that were confirmed together
    window.press("Backspace")
    window.wait(f"{SAID}.startsWith('Undone: {corrected}')")
    assert server.state()["labelled"] == 12


def test_two_windows_do_not_overwrite_each_other(table, serve, browser, tmp_path_factory):
    server = serve(*table, "--classes", "cat,<i>dog</i>")
    first = Window(browser, server)
    title = first.current()

    def label():
        return next(item["label"] for item in server.state()["batch"] if item["title"] == title)

    with Browser(tmp_path_factory.mktemp("second")) as other:
        second = Window(other, server)
        assert second.current() == title
        second.press("2")
        second.wait(f"{SAVED} && {SAID}.startsWith('Saved')")
        first.press("1")
        first.wait("document.querySelector('.notice')")
        seen = first.text("notices")
        assert "was answered in another window: <i>dog</i>. Your answer, cat, was not saved." in seen
        assert label() == "<i>dog</i>"
        first.click("notices", "button")
        first.wait(f"{CHOSEN}.querySelector('.title').textContent === '{title}'")
        first.press("1")
        first.wait(f"!document.querySelector('.notice') && {SAVED} && {SAID}.startsWith('Saved as cat')")
        assert label() == "cat"
        second.press("Backspace")
        second.wait(f"{SAID} === 'There is nothing to undo in this window.'")
    assert browser.value("document.querySelectorAll('main i').length") == 0


def test_keys_of_one_character_can_be_switched_off(table, serve, browser):
    server = serve(*table, "--classes", "a,b,c", "batch=6")
    window = Window(browser, server)
    window.current()
    window.click("keys")
    for key in "1", "0", "+", "/":
        window.press(key)
    assert server.state()["version"] == 0
    assert browser.value("document.querySelector('#none kbd').checkVisibility()") is False
    window.press(" ")
    window.wait(f"{SAVED} && {SAID}.startsWith('Saved')")
    assert server.state()["skipped"] == 1
    window = Window(browser, server)  # it is remembered
    window.current()
    window.press("1")
    window.click("keys")
    window.press("2")
    window.wait(f"{SAID}.startsWith('Saved as b')")
    assert server.state()["labelled"] == 1


def test_many_long_names_fit(table, serve, browser, tmp_path):
    names = [f"{'w' * 60}{place}" if place % 9 == 0 else f"class {place}" for place in range(60)]
    server = serve(*table, "--classes", ",".join(names))
    for width, dark in ((400, True), (1280, False)):
        window = Window(browser, server, width=width, dark=dark)
        window.current()
        for view in ("grid", "one"):
            window.click(f"tab-{view}")
            time.sleep(0.3)
            assert window.overflow() <= 0
        browser.picture(tmp_path / f"names-{width}-{dark}.png")
        for element, front, behind in {tuple(row) for row in browser.value(COLOURS)}:
            bright, dim = sorted((luminance(front), luminance(behind)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (element, front, behind)
    title = window.current()
    browser.value("document.querySelector('.item').focus()")
    window.press("/")
    browser("Input.insertText", text="class 59")
    window.enter()
    window.wait(f"{SAID}.startsWith('Saved as class 59')")
    assert {item["title"]: item["label"] for item in server.state()["batch"]}[title] == "class 59"
    assert browser.complaints == []


COLOURS = """
    [...document.querySelectorAll('body *')].filter(e => !e.closest('noscript') && e.getClientRects().length &&
        [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
    .map(e => {
        let behind = e;
        while (behind && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
        const front = getComputedStyle(e)[e.ownerSVGElement ? 'fill' : 'color'];
        return [e.tagName + '.' + e.className, front, getComputedStyle(behind ?? document.body).backgroundColor];
    })"""
