"""`transduce label` in a process of its own, and a window of the browser with its page."""

import json
import signal
import subprocess
import sys
import time
import urllib.request

from tests.runs.servers import free_port

CODES = {"Enter": 13, " ": 32, "Backspace": 8, "Delete": 46, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "End": 35}
LIMIT = 180  # seconds until the page must show what is awaited
CHOSEN = "document.querySelector('.item[aria-selected=true]')"
OPEN = f"{CHOSEN}?.classList.contains('open')"
SAVED = "document.body.dataset.unsaved === '0'"


class Server:
    """`transduce label` in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, folder, environment, *words):
        self.port = free_port()
        self.command = [sys.executable, "-m", "runs.cli", "label", *words, "--no-browser"]
        self.command += ["--port", str(self.port), f"results={folder / 'results'}"]
        self.log, self.environment, self.folder = folder / "server.log", environment, folder
        try:
            self.start()
        except BaseException:
            self.kill()
            raise

    def start(self):
        with self.log.open("ab") as log:
            place = {"cwd": self.folder, "env": self.environment}
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **place)
        end = time.monotonic() + LIMIT
        while True:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            pages = [word for word in self.log.read_text().split() if "/?token=" in word]
            if pages:
                self.page = pages[-1]
                try:
                    self.state()
                    return
                except OSError:
                    pass
            time.sleep(0.1)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def state(self):
        place, token = self.page.split("?token=")
        request = urllib.request.Request(f"{place}api/state", headers={"X-Label-Token": token})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


class Window:
    """A window with the page, used by keys."""

    def __init__(self, browser, server, **options):
        self.browser, self.server = browser, server
        browser.open(server.page, **options)
        self.wait("document.getElementById('name').textContent !== 'transduce label'")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            code = CODES.get(key, ord(key[0].upper()))
            self.browser("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def wait(self, expression):
        end = time.monotonic() + LIMIT
        asked = f"(value => typeof value === 'string' ? value : Boolean(value))({expression})"
        while not (found := self.browser.value(asked)):
            seen = self.browser.value("document.body.innerText")
            assert time.monotonic() < end, f"{expression}: {seen}"
            time.sleep(0.05)
        return found

    def text(self, id):
        return self.browser.value(f"document.getElementById('{id}').innerText")

    def current(self):
        """Title of the current item, when there is one that can be answered."""
        return self.wait(f"{OPEN} && {CHOSEN}.querySelector('.title').textContent")

    def add(self, name):
        self.press("+")
        self.browser("Input.insertText", text=name)
        self.enter()
        self.wait(f"document.getElementById('said').textContent.startsWith('Added the class {name}')")

    def enter(self):
        for kind in ("keyDown", "keyUp"):
            self.browser("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13, text="\r")

    def click(self, id, within=""):
        self.browser.value(f"document.querySelector('#{id} {within}').click()")

    def overflow(self):
        return self.browser.value("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
