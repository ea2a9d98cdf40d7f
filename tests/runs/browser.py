"""A real browser without a window: Debian's chromium, driven by its DevTools protocol through a pipe."""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

CHROMIUM = shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]
LIMIT = 60  # seconds until an answer must be there


class Browser:
    """One tab. What it asks of other hosts and what its console says is collected in `requests` and `complaints`."""

    def __init__(self, folder: Path) -> None:
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        os.set_blocking(self._read, False)
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            # the protocol has its pipes at the descriptors 3 and 4
            ["bash", "-c", f'exec 3<&{to_child} 4>&{from_child}; exec "$@"', "bash", *command],
            pass_fds=[to_child, from_child],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        self._number, self._rest, self._events = 0, b"", []
        self._session = None
        self.requests, self.complaints = [], []
        try:
            target = self("Target.createTarget", url="about:blank")["targetId"]
            self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        with contextlib.suppress(AssertionError, OSError):
            self._session = None
            self("Browser.close")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def __call__(self, method, **parameters):
        """One command and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer)

    def _next(self):
        end = time.monotonic() + LIMIT
        while b"\0" not in self._rest:
            assert time.monotonic() < end, "the browser does not answer"
            try:
                block = os.read(self._read, 1 << 16)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            assert block, "the browser ended"
            self._rest += block
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        known = event.get("params", {})
        self._events.append(event.get("method"))
        if event.get("method") == "Page.frameNavigated":
            self._events.append(known["frame"]["loaderId"])
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(known["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(known["entry"]["text"])
        elif event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(known))

    def open(self, address, *, width=1280, height=900, dark=False):
        """Load a page in a window of that width, and wait until it is there."""
        phone = width < 600
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = "dark" if dark else "light"
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._events.clear()
        loader = self("Page.navigate", url=address).get("loaderId")  # without, it is another place of the same page
        while loader and "Page.loadEventFired" not in self._after(loader):  # the last page may be loading still
            self._note(self._next())

    def _after(self, event):
        return self._events[self._events.index(event) :] if event in self._events else []

    def value(self, expression):
        """What a piece of script gives on the page."""
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, path, *, whole=False):
        """A PNG of the window, or of the whole page."""
        data = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
