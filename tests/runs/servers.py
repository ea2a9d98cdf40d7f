"""Real servers of MLflow for tests."""

import contextlib
import socket
import time
import urllib.request

from tests.runs.children import started

LIMIT = 120  # seconds until a server must answer; it takes 10 to 40


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(child, port):
    for _ in range(LIMIT * 5):
        assert child.poll() is None, "the server ended"
        place = f"http://127.0.0.1:{port}/health"
        with contextlib.suppress(OSError), urllib.request.urlopen(place, timeout=5) as answer:
            return answer.status
        time.sleep(0.2)
    raise AssertionError(f"no answer in {LIMIT} s")


@contextlib.contextmanager
def in_background(arguments, environment, log):
    with (
        log.open("wb") as output,
        started(arguments, environment, output=output, cwd=log.parent) as child,
    ):
        yield child


def mlflow_server(folder, port, environment):
    """A server with artefacts behind it, on a database in the folder; it takes a while to answer."""
    command = ["-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/server.db"]
    command += ["--artifacts-destination", str(folder / "files"), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1"]
    lean = {**environment, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return in_background(command, lean, folder / "log")
