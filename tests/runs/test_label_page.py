"""The page of `transduce label` in a real browser: sessions by keys, a killed server, two windows, widths, names."""

import csv
import time

import numpy as np
import pandas as pd
import pytest

from tests.runs.browser import CHROMIUM, Browser
from tests.runs.label_window import CHOSEN, LIMIT, SAVED, Server, Window
from tests.runs.test_report_browser import luminance

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="no chromium is installed")]
GUESSES = "[...document.querySelectorAll('.item .predicted, #classes .guess')].filter(e => e.textContent).length"


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


def cifar(folder, data, count=600):
    """Write pictures and their pixels as features; the class of each row."""
    with np.load(data / "clustering" / "cifar10.npz") as stored:
        blob, ends, labels, names = (stored[name] for name in ("blob_test", "offset_test", "label_test", "classes"))
    from PIL import Image

    chosen = np.random.default_rng(0).choice(len(labels), count, replace=False)
    (folder / "pictures").mkdir()
    features, truth = [], {}
    for place, picture in enumerate(chosen):
        file = folder / "pictures" / f"{place:04d}.jpg"
        file.write_bytes(blob[ends[picture] : ends[picture + 1]].tobytes())
        with Image.open(file) as opened:
            features.append(np.asarray(opened.convert("RGB").resize((8, 8))).reshape(-1) / 255)
        truth[str(place)] = str(names[labels[picture]])
    np.save(folder / "pixels.npy", np.array(features, dtype=np.float32))
    return truth


def test_a_session_of_sixty_labels(tmp_path, reference_data, serve, browser):
    if not (reference_data / "clustering" / "cifar10.npz").is_file():
        pytest.skip("the reference data have no clustering/cifar10.npz")
    truth = cifar(tmp_path, reference_data)
    names = sorted(set(truth.values()))
    server = serve("pixels.npy", "--pictures", "pictures", "--classes", ",".join(names[:-1]))
    window = Window(browser, server)
    browser("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "downloads"))
    window.add(names[-1])
    keys, given = server.state()["keys"], {}
    assert list(keys) == names
    assert not {"0", "-"} & set(keys.values())

    def label():
        title = window.current()
        window.press(keys[truth[title]])
        given[title] = ("labelled", truth[title])

    for _ in range(25):
        label()
    window.wait(SAVED)
    assert f"as {list(given.values())[-1][1]}, 25 of 600." in window.text("said")
    server.kill()
    label()
    window.wait("document.querySelector('.notice button')")
    assert "The server does not answer" in window.text("notices")
    assert "1 answer not saved yet: kept in this page." in window.text("notices")
    assert browser.value("document.querySelectorAll('.item.unsaved').length") == 1
    assert browser.value("document.querySelector('.notice').getBoundingClientRect().top >= 0")
    browser.picture(tmp_path / "killed.png")
    server.start()
    browser.value("document.querySelector('.notice button').click()")
    window.wait("!document.querySelector('.notice')")
    window.wait(SAVED)
    assert server.state()["labelled"] == 26

    label()
    window.wait(SAVED)
    last = list(given)[-1]
    window.press("Backspace")
    window.wait(f"document.getElementById('said').textContent.startsWith('Undone: {last}')")
    assert window.current() == last
    assert server.state()["labelled"] == 26
    given.pop(last)
    title = window.current()
    window.press("-")
    given[title] = ("none", "")
    title = window.current()
    window.press(" ")
    given[title] = ("skipped", "")
    while sum(state == "labelled" for state, _ in given.values()) < 60:
        label()
    window.wait(SAVED)
    assert server.state()["labelled"] == 60
    window.wait("document.querySelector('#curve svg')")
    assert "95" in window.text("estimate")

    for format in ("csv", "parquet"):
        browser.value(f"document.querySelector('[data-format={format}]').click()")
        end = time.monotonic() + LIMIT
        while not list((tmp_path / "downloads").glob(f"*.{format}")):
            assert time.monotonic() < end
            time.sleep(0.05)
    with next((tmp_path / "downloads").glob("*.csv")).open(newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert {title: (row["state"], row["label"]) for title, row in rows.items() if row["state"] != "open"} == given
    assert len(rows) == 600
    table = pd.read_parquet(next((tmp_path / "downloads").glob("*.parquet")))
    assert table["label"].notna().sum() == 60
    for width, dark in ((1280, False), (400, True)):
        shown = Window(browser, server, width=width, dark=dark)
        shown.wait("[...document.images].every(image => image.complete)")
        assert browser.value("[...document.images].every(image => image.naturalWidth > 0)")
        assert shown.overflow() <= 0
        for view in ("label", "class", "misfits", "suspicious"):
            browser.value(f"document.getElementById('tab-{view}').click()")
            time.sleep(0.5)
            assert shown.overflow() <= 0
            browser.picture(tmp_path / f"{view}-{width}.png")
    expected = [words for words in browser.complaints if "ERR_CONNECTION_REFUSED" not in words]
    assert expected == []
    assert {address.split("/")[2] for address in browser.requests if address.startswith("http")} == {
        f"127.0.0.1:{server.port}"
    }


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


def test_two_windows_do_not_overwrite_each_other(table, serve, browser, tmp_path_factory):
    server = serve(*table, "--classes", "cat,<i>dog</i>")
    first = Window(browser, server)
    title = first.current()
    # the first window is not told what the second one does
    hang = "path === 'api/state' ? new Promise(() => {}) : real(path, options)"
    browser.value(f"{{ const real = fetch; window.fetch = (path, options) => {hang}; }}")
    time.sleep(0.5)
    with Browser(tmp_path_factory.mktemp("second")) as other:
        second = Window(other, server)
        assert second.current() == title
        second.press("2")
        second.wait(SAVED)
        first.press("1")
        first.wait("document.querySelector('.notice')")
        seen = first.text("notices")
        assert "was answered in another window: <i>dog</i>. Your answer, cat, was not saved." in seen
        assert server.state()["labelled"] == 1
        item = next(item for item in server.state()["batch"] if item["title"] == title)
        assert item["label"] == "<i>dog</i>"
        browser.value("document.querySelectorAll('.notice button')[1].click()")
        first.wait(f"!document.querySelector('.notice') && {SAVED}")
        item = next(item for item in server.state()["batch"] if item["title"] == title)
        assert item["label"] == "cat"
        second.wait("document.getElementById('counts').textContent.includes('1 of 90')")
        second.press("Backspace")
        second.wait("document.getElementById('said').textContent === 'There is nothing to undo in this window.'")
    assert browser.value("document.querySelectorAll('main i, main b').length") == 0


def test_by_class_and_by_keyboard_alone(table, serve, browser):
    server = serve(*table, "--classes", "a,b,c", "batch=6")
    window = Window(browser, server)
    for _ in range(12):
        title = window.current()
        window.press(str(int(title.split()[-1]) % 3 + 1))
    window.wait(SAVED)
    window.wait("document.querySelectorAll('.item.open').length === 6")
    assert browser.value(GUESSES) == 0  # who sees the prediction agrees too easily
    window.press("Enter")
    window.wait("document.getElementById('said').textContent.startsWith('Its prediction is hidden')")
    window.click("options", "summary")
    window.click("predictions")
    window.wait(f"{GUESSES} === 7")
    assert "may be too high" in window.text("biased")
    window.current()
    window.press("Enter")
    window.wait("document.getElementById('said').textContent.startsWith('Saved as')")
    window.click("predictions")
    window.wait(f"{GUESSES} === 1")  # that of the answered item
    window.press("ArrowLeft")
    window.press("Delete")
    window.wait("document.getElementById('said').textContent.startsWith('Cleared')")
    assert server.state()["labelled"] == 12
    browser.value("document.getElementById('tab-label').focus()")
    window.press("ArrowRight")
    window.wait("document.getElementById('about').textContent.includes('predicted as a')")
    window.wait("[...document.querySelectorAll('[role=option]')].some(option => option.offsetParent)")
    for _ in range(12):
        window.press("Tab")
        if browser.value("document.activeElement.getAttribute('role')") == "option":
            break
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    before = browser.value("document.activeElement.querySelector('.title').textContent")
    window.press("2")
    window.wait(SAVED)
    assert server.state()["labelled"] == 13
    assert browser.value("document.activeElement.querySelector('.title').textContent") != before
    window.press("Backspace")
    window.wait("document.getElementById('said').textContent.startsWith('Undone')")
    assert browser.value("document.activeElement.querySelector('.title').textContent") == before
    assert server.state()["labelled"] == 12


def test_keys_of_one_character_can_be_switched_off(table, serve, browser):
    server = serve(*table, "--classes", "a,b,c", "batch=6")
    window = Window(browser, server)
    window.current()
    window.click("keys")
    for key in "1", "0", "+", "/":
        window.press(key)
    assert server.state()["version"] == 0
    assert browser.value("document.activeElement.id !== 'new-class'")
    assert browser.value("document.querySelectorAll('#answer [aria-keyshortcuts=\"1\"]').length") == 0
    assert browser.value("document.querySelector('#none kbd').checkVisibility()") is False
    window.press(" ")
    window.wait(SAVED)
    assert server.state()["skipped"] == 1
    window = Window(browser, server)  # it is remembered
    window.current()
    window.press("1")
    window.click("keys")
    window.press("2")
    window.wait("document.getElementById('said').textContent.startsWith('Saved as b')")
    assert server.state()["labelled"] == 1


def test_items_of_no_class_and_counts_by_class(tmp_path, serve, browser):
    generator = np.random.default_rng(0)
    rows = np.arange(160)
    centres = 4 * generator.normal(size=(4, 6))
    frame = pd.DataFrame({"emb": list((centres[rows % 4] + generator.normal(size=(160, 6))).astype(np.float32))})
    frame.to_parquet(tmp_path / "four.parquet")
    server = serve("four.parquet", "--features", "emb", "--classes", "a,b,c", "batch=10")
    window = Window(browser, server)
    for _ in range(40):
        group = int(window.current()) % 4
        window.press(" " if group == 3 else str(group + 1))
    window.wait(SAVED)
    window.click("tab-misfits")
    window.wait("document.querySelectorAll('.item').length > 3 && document.querySelector('.predicted').textContent")
    titles = browser.value("[...document.querySelectorAll('.item .title')].map(e => e.textContent)")
    assert np.mean([int(title) % 4 == 3 for title in titles[:20]]) > 0.9  # least fitting first
    assert "of the labels" in browser.value("document.querySelector('.item .predicted').textContent")
    window.press("0")
    window.wait("document.getElementById('said').textContent.startsWith('Saved as none of these')")
    assert server.state()["none"] == 1
    window.click("by-class", "summary")
    counts = browser.value("[...document.querySelectorAll('#counts-by-class tbody tr')].map(e => e.innerText)")
    labelled = [int(row.split()[1]) for row in counts]
    assert [row.split()[0] for row in counts] == ["a", "b", "c"]
    assert sum(labelled) == server.state()["labelled"]


def test_a_class_without_features_is_told_on_the_page(tmp_path, table, serve, browser):
    np.save(tmp_path / "text.npy", np.random.default_rng(0).normal(size=(2, 6)))
    server = serve(*table, "--classes", "a,b", "--text-features", "text.npy")
    window = Window(browser, server)
    window.current()
    window.add("c")
    for place in range(10):
        window.current()
        window.press(str(place % 3 + 1))
    window.wait("document.getElementById('notices').textContent.includes('has no row for c')")


def test_a_wrong_label_is_shown_and_corrected(table, serve, browser):
    server = serve(*table, "--classes", "a,b,c", "batch=6")
    window = Window(browser, server)
    wrong = window.current()
    for place in range(18):
        window.press(str((int(window.current()) + (place == 0)) % 3 + 1))
    window.wait(SAVED)
    window.wait("document.getElementById('suspicious').textContent === ' (1)'")
    browser.value("document.getElementById('tab-suspicious').click()")
    window.wait(f"{CHOSEN}?.querySelector('.title').textContent === '{wrong}'")
    right = "abc"[int(wrong) % 3]
    assert window.browser.value(f"{CHOSEN}.querySelector('.predicted').textContent") == f"without its label: {right}"
    window.press("Enter")
    window.wait(f"document.getElementById('said').textContent === 'Saved as {right}, 18 of 90.'")
    window.wait("document.getElementById('suspicious').textContent === ''")


def test_many_long_names_fit(table, serve, browser, tmp_path):
    names = [f"{'w' * 60}{place}" if place % 9 == 0 else f"class {place}" for place in range(60)]
    server = serve(*table, "--classes", ",".join(names))
    for width, dark in ((400, True), (400, False), (1280, False)):
        window = Window(browser, server, width=width, dark=dark)
        window.current()
        assert window.overflow() <= 0
        browser.picture(tmp_path / f"names-{width}-{dark}.png")
        for element, front, behind in {tuple(row) for row in browser.value(COLOURS)}:
            bright, dim = sorted((luminance(front), luminance(behind)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (element, front, behind)
    title = window.current()
    window.press("/")
    browser("Input.insertText", text="class 59")
    window.enter()
    window.wait("document.getElementById('said').textContent.startsWith('Saved as class 59')")
    assert {item["title"]: item["label"] for item in server.state()["batch"]}[title] == "class 59"


COLOURS = """
    [...document.querySelectorAll('body *')].filter(e => !e.closest('noscript') && e.getClientRects().length &&
        [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
    .map(e => {
        let behind = e;
        while (behind && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
        const front = getComputedStyle(e)[e.ownerSVGElement ? 'fill' : 'color'];
        return [e.tagName + '.' + e.className, front, getComputedStyle(behind ?? document.body).backgroundColor];
    })"""
