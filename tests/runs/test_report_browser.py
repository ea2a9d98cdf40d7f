"""The report as a browser shows it: nothing is fetched, nothing overflows on a phone, keys work."""

import pandas as pd
import pytest

from runs.own_data.fairness_page import fairness_page
from tests.runs.browser import CHROMIUM, Browser
from tests.runs.test_own_pages import APART, MIXED, fair_pages
from tests.runs.test_own_pages import page as page_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="no chromium is installed")]
PHONE, DESK = 360, 1280
LANDMARKS = ["header", "nav[aria-label]", "main", "footer", "h1", "a.skip"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture(scope="module")
def site(report):
    """The folder of the site."""
    return report.parent


def pages(site):
    """Every page on a phone, where there is least room; one of each template on a desk."""
    found = sorted(site.rglob("*.html"))
    one_each = {page.parent: page for page in found}.values()
    return [*((page, PHONE, True) for page in found), *((page, DESK, False) for page in one_each)]


def test_no_page_fetches_complains_or_overflows(site, browser):
    browser.requests.clear()
    browser.complaints.clear()
    for page, width, dark in pages(site):
        browser.open(page.as_uri(), width=width, dark=dark)
        wide = browser.value("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{page.name} overflows by {wide} at {width}"
        missing = browser.value(f"{LANDMARKS}.filter(mark => !document.querySelector(mark))")
        assert missing == [], page.name
    assert browser.complaints == []
    assert [address for address in browser.requests if not address.startswith(site.as_uri())] == []
    assert browser.value("document.title").endswith("transduce")


def test_pages_about_a_table_of_ones_own(tmp_path, browser):
    wide = "w" * 60
    frame = pd.DataFrame({wide: [1, 2, 3, 5] * 2, "sex": [*"ffff", *[wide] * 4]})
    file = tmp_path / "page.html"
    file.write_text(page_of(fairness_page(fair_pages(tmp_path, frame, APART, MIXED))))
    browser.requests.clear()
    browser.complaints.clear()
    for width, dark in [(PHONE, True), (DESK, False)]:
        browser.open(file.as_uri(), width=width, dark=dark)
        assert browser.value("document.scrollingElement.scrollWidth - document.documentElement.clientWidth") <= 0
        assert browser.value("[...document.images].every(image => image.naturalWidth > 0)")
    assert browser.complaints == []
    assert {address for address in browser.requests if not address.startswith("data:")} == {file.as_uri()}


def press(browser, key, code):
    for kind in ("keyDown", "keyUp"):
        browser(
            "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, text="\r" if code == 13 else ""
        )


def test_the_first_key_press_offers_to_skip_to_the_content(site, browser):
    browser.open((site / "index.html").as_uri())
    press(browser, "Tab", 9)
    assert browser.value("document.activeElement.className") == "skip"
    assert browser.value("document.activeElement.getBoundingClientRect().left >= 0")
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(browser, "Enter", 13)
    assert browser.value("document.activeElement.id") == "content"


def luminance(colour):
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_background(site, browser, dark):
    """WCAG 2.2, AA: 4.5 to 1, for every element that holds text itself."""
    script = """
        [...document.querySelectorAll('body *')].filter(e =>
            [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.getClientRects().length)
        .map(e => {
            let behind = e;
            const clear = 'rgba(0, 0, 0, 0)';
            while (behind && getComputedStyle(behind).backgroundColor === clear) behind = behind.parentElement;
            const style = getComputedStyle(e);
            const front = e.ownerSVGElement ? style.fill : style.color;
            return [e.tagName + '.' + e.getAttribute('class'), front,
                getComputedStyle(behind ?? document.body).backgroundColor];
        })"""
    for name in ("index.html", "experiments/tiny.html", "papers/thesis.html"):
        browser.open((site / name).as_uri(), dark=dark)
        for element, front, behind in {tuple(row) for row in browser.value(script)}:
            bright, dim = sorted((luminance(front), luminance(behind)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (name, element, front, behind)
