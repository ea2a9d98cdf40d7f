"""Makes the pictures of the tutorial docs/tutorials/label_in_the_browser.md: `python -m tests.runs.label_pictures`.

It follows the tutorial on scikit-learn's digits, in a folder of its own, and writes docs/images/label-*.png.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

from tests.runs.browser import Browser
from tests.runs.label_window import OPEN, SAVED, Server, Window

PROJECT = Path(__file__).resolve().parents[2]
TUTORIAL = PROJECT / "docs" / "tutorials" / "label_in_the_browser.md"
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NINE, LABELS = 60, 120  # answers with nine classes, and all answers of the page "Label"
WRONG = 4  # number of the answer that is wrong on purpose
TITLE = "item => item.querySelector('.title').textContent"
SETTLED = f"{SAVED} && !document.getElementById('counts').textContent.includes('predicting')"


def main():
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with tempfile.TemporaryDirectory() as place, Browser(Path(place) / "browser") as browser:
        folder = Path(place)
        code = re.search(r"^```python\n(.*?)^```", TUTORIAL.read_text(), re.M | re.S)[1]
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
        words = ("digits.npy", "--pictures", "digits", "--classes", ",".join(NAMES[1:]))
        server = Server(folder, environment, *words)
        try:
            follow(server, browser)
            ended(server)
        finally:
            server.kill()


def ended(server):
    """End the session by Ctrl-C, and run the last block of the tutorial on the file that it writes."""
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) == 0, server.log.read_text()
    file = next(server.folder.glob("results/labelling/*/digits-labels.csv"))
    code = re.findall(r"^```python\n(.*?)^```", TUTORIAL.read_text(), re.M | re.S)[-1]
    subprocess.run([sys.executable, "-c", code.replace("FILE.csv", str(file))], check=True)


def follow(server, browser):
    truth = load_digits().target
    window = Window(browser, server, height=1000)

    def key_of(title):
        return server.state()["keys"].get(NAMES[truth[int(title)]], "0")

    def label(numbers):
        for number in numbers:
            right = key_of(window.current())
            window.press(str(int(right) % 9 + 1) if number == WRONG else right)
            if number == 22:
                window.wait(SETTLED)
                shot(window, "batch")
        window.wait(SETTLED)
        window.wait(OPEN)

    label(range(NINE))
    window.click("tab-misfits")
    window.wait("document.querySelector('#items .item')")
    shot(window, "misfits")
    window.add("zero")
    label_zeros(window, truth, 8)
    choose(window, "")
    window.wait("document.getElementById('about').textContent.includes('as none of these')")
    label_zeros(window, truth, 48)
    window.wait(SETTLED)
    window.click("tab-label")
    label(range(NINE, LABELS))
    shot(window, "estimate")
    window.click("tab-suspicious")
    window.wait("document.querySelector('#items .item')")
    shot(window, "suspicious")
    window.press("Enter")
    window.wait("document.getElementById('said').textContent.startsWith('Saved')")
    choose(window, "eight")
    window.wait("document.getElementById('about').textContent.includes('as eight')")
    shot(window, "class")
    window = Window(browser, server, width=400, height=860)
    window.press(key_of(window.current()))
    window.wait(SETTLED)
    shot(window, "narrow")


def choose(window, name):
    """Show a class in the view "By class"."""
    window.click("tab-class")
    window.browser.value(
        f"{{ const list = document.getElementById('class'); list.value = '{name}';"
        " list.dispatchEvent(new Event('change')); }"
    )


def label_zeros(window, truth, number):
    """Label the zeros among the first items that are shown."""
    key = window.server.state()["keys"]["zero"]
    titles = window.browser.value("[...document.querySelectorAll('.item .title')].map(e => e.textContent)")
    for title in titles[:number]:
        if truth[int(title)] == 0:
            window.browser.value(f"[...document.querySelectorAll('.item')].find({TITLE} === '{title}').click()")
            window.press(key)


def shot(window, name):
    """Write the picture of the window, without more than 256 colours, which keeps it small."""
    seen = "[...document.images].filter(image => image.getBoundingClientRect().top < innerHeight)"
    window.wait(f"{seen}.every(image => image.complete && image.naturalWidth)")
    path = PROJECT / "docs" / "images" / f"label-{name}.png"
    window.browser.picture(path)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    main()
