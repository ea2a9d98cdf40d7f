"""The MLflow UI for a results folder, served by this process until Ctrl-C."""

import os
import socket
import sys
import webbrowser
from contextlib import suppress

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.record.query import NEWEST, experiments
from runs.storage.locks import Say, silent
from runs.track import Tracker

HOST, PORT = "127.0.0.1", 5000
"""Where `transduce ui` listens by default."""
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
# Without the parts for language models: their worker processes, and the assistant.
LEAN = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_ENABLE_REMOTE_ASSISTANT": "false"}


def serve(store: Store, *, host: str = HOST, port: int = PORT, browse: bool = False, say: Say = silent) -> None:
    """Run the UI until Ctrl-C and print its address. If the record is on a server, only print the server's address.

    Args:
        host: the address at which it listens; an address other than 127.0.0.1 admits other machines.
        port: 1 to 65535.
        browse: open the address in a browser, if there is a screen.

    Raises:
        InputError: the port is taken or not allowed.
    """
    tracker = Tracker(store, say=say)
    if tracker.is_server:
        say(f"the runs are on the server {tracker.place} (MLFLOW_TRACKING_URI); open that address")
        return
    opened = opened_at(host, port)
    page = first_page(tracker, address(host, port))  # also creates a missing record
    import uvicorn
    from mlflow.server.constants import ARTIFACT_ROOT_ENV_VAR, BACKEND_STORE_URI_ENV_VAR

    os.environ |= LEAN | {BACKEND_STORE_URI_ENV_VAR: tracker.uri}
    if tracker.own:
        os.environ[ARTIFACT_ROOT_ENV_VAR] = tracker.store.artifacts.as_uri()
    # As `mlflow ui` starts it, but that is a process of its own, which a killed parent would leave behind.
    app = "mlflow.server.fastapi_app:app"
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    say(f"MLflow UI: {page} (press Ctrl-C to stop), on {tracker.place}")
    if host not in LOOPBACK:
        say(f"warning: host={host} lets other machines read and change runs; there is no password")
    if browse and has_screen():  # the page waits until the server is up
        webbrowser.open(page)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[opened])


def first_page(tracker: Tracker, place: str) -> str:
    """Return the address of the experiment with the newest run; the start page without runs."""
    runs = tracker.client.search_runs(list(experiments(tracker)), max_results=1, order_by=[NEWEST])
    if not runs:
        return place
    # without workflowType, the side bar has the entries of language models
    return f"{place}/#/experiments/{runs[0].info.experiment_id}/runs?workflowType=machine_learning"


def has_screen() -> bool:
    """Return whether there is a screen. Without one, a text browser would open in the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def address(host: str, port: int) -> str:
    """Return the UI's address for a browser on this machine."""
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"


def opened_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises InputError if the port is taken or not allowed."""
    if not 1 <= port <= 65535:
        raise InputError(f"port must be between 1 and 65535, not {port}")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        remedy = f"use another one, such as port={port + 1 if port < 65535 else port - 1}"
        raise InputError(f"cannot listen at {host} port {port}: {error.strerror}; {remedy}") from error
