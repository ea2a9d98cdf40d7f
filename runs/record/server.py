"""The MLflow UI for a store: start it, wait for it, and end it with the command."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.record import leash
from runs.record.address import quiet_mlflow
from runs.record.query import NEWEST, pages
from runs.storage.locks import Say, silent
from runs.track import Tracker

PORT = 5000
START_LIMIT = 120.0  # seconds; a loaded machine needed 40
STOP_LIMIT = 10.0
# Without the parts for language models: six processes, and the assistant.
LEAN = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_ENABLE_REMOTE_ASSISTANT": "false"}


@contextmanager
def served(
    tracker: Tracker, *, host: str = "127.0.0.1", port: int = PORT, say: Say = silent
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `mlflow ui` on the record of a store while the block runs; the block starts when the server answers.

    The server has a process group of its own. All processes of the group end with the block.

    Args:
        host: the address at which it listens; an address other than 127.0.0.1 admits other machines.
        port: 1 to 65535.

    Raises:
        InputError: the port is taken or not allowed, or the server did not start.
    """
    _check_free(host, port)
    _ = tracker.client  # creates a missing record, and raises an error if it cannot be used
    quiet_mlflow()
    command = [sys.executable, "-m", "mlflow", "ui", "--host", host, "--port", str(port), "--workers", "1"]
    if tracker.own:
        command += ["--default-artifact-root", tracker.store.artifacts.as_uri()]
    # Passed through the environment: command lines are visible to all users, and the address may contain a password.
    environment = {**os.environ, "MLFLOW_BACKEND_STORE_URI": tracker.uri, **LEAN}
    log = log_file(tracker)
    with tracker.store.watched(), log.open("wb") as output, _leash() as (pipe, begin):
        process = subprocess.Popen(
            [*begin, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
            pass_fds=(pipe,),
        )
        try:
            say(f"starting the MLflow UI on {tracker.place}")
            _wait_until_healthy(process, address(host, port), log)
            yield process
        finally:
            _end(process)


@contextmanager
def _leash() -> Iterator[tuple[int, list[str]]]:
    """Yield a pipe, and the prefix of a command that ends with this process (see `runs/record/leash.py`)."""
    own_end, child_end = os.pipe()
    try:
        yield own_end, [sys.executable, "-I", "-S", str(Path(leash.__file__)), str(own_end)]
    finally:
        os.close(own_end)
        os.close(child_end)


def serve(store: Store, *, host: str = "127.0.0.1", port: int = PORT, browse: bool = False, say: Say = silent) -> None:
    """Run the UI until Ctrl-C and print its address. If the record is on a server, only print the server's address.

    Args:
        browse: open the address in a browser, if there is a screen.
    """
    tracker = Tracker(store, say=say)
    if tracker.is_server:
        say(f"the runs are on the server {tracker.place} (MLFLOW_TRACKING_URI); open that address")
        return
    with contextlib.suppress(KeyboardInterrupt), served(tracker, host=host, port=port, say=say) as process:
        page = first_page(tracker, address(host, port))
        say(f"MLflow UI: {page} (press Ctrl-C to stop)")
        if host not in ("127.0.0.1", "localhost", "::1"):
            say(f"warning: host={host} lets other machines read and change runs; there is no password")
        if browse and has_screen():
            webbrowser.open(page)
        if process.wait() != 0:
            raise _ended(process, log_file(tracker))


def first_page(tracker: Tracker, place: str) -> str:
    """Return the address of the experiment with the newest run; the start page without runs."""
    experiments = [experiment.experiment_id for experiment in pages(tracker.experiment_page)]
    runs = tracker.client.search_runs(experiments, max_results=1, order_by=[NEWEST])
    return f"{place}/#/experiments/{runs[0].info.experiment_id}/runs" if runs else place


def has_screen() -> bool:
    """Return whether there is a screen. Without one, a text browser would open in the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def log_file(tracker: Tracker) -> Path:
    """Return the file with the server's own messages."""
    tracker.store.prepare()
    return tracker.store.root / "ui.log"


def address(host: str, port: int) -> str:
    """Return the UI's address for a browser on this machine."""
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"


def _check_free(host: str, port: int) -> None:
    if not 1 <= port <= 65535:
        raise InputError(f"port must be between 1 and 65535, not {port}")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        raise InputError(
            f"cannot listen at {host} port {port}: {error.strerror}; "
            f"use another one, such as port={port + 1 if port < 65535 else port - 1}"
        ) from error


def _wait_until_healthy(process: "subprocess.Popen[bytes]", place: str, log: Path) -> None:
    end = time.monotonic() + START_LIMIT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise _ended(process, log)
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{place}/health", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise InputError(f"the MLflow UI did not answer within {START_LIMIT:.0f} s at {place}; see {log}")


def _ended(process: "subprocess.Popen[bytes]", log: Path) -> InputError:
    return InputError(f"the MLflow UI ended with code {process.returncode}; its messages are in {log}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the whole process group, first by a request and then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_LIMIT)
            if number == signal.SIGTERM and _group_is_gone(process.pid):
                return


def _group_is_gone(group: int) -> bool:
    for _ in range(50):
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return True
        time.sleep(0.1)
    return False
