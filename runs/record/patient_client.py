"""MLflow's client for a record on a server. It waits for a limited time, prints a message, and then gives up."""

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from clustering.foundation.errors import InputError
from runs.record.passwords import without_passwords
from runs.storage.locks import Say

PATIENCE = 5.0  # seconds without an answer before the first message, and between messages

# MLflow's defaults retry each request for eight minutes or longer. These limits are about 15 s if no server answers,
# and about 90 s if a server accepts a request and does not answer it.
BOUNDS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
SLOWEST = 1 << 20  # lowest assumed speed, in bytes per second, at which a server stores a file before it answers


class RecordUnreachable(InputError):
    """The server or database with the record does not answer. The computed results are kept in the results folder."""


def bound_retries() -> None:
    """Limit the time of MLflow's retries; variables set by the user are kept. Call before the first request."""
    for name, value in BOUNDS.items():
        os.environ.setdefault(name, value)


class PatientClient:
    """A client of MLflow whose calls raise `RecordUnreachable` when the record cannot be reached.

    After that, and after an interruption during a long wait, further calls fail at once, so that error handling does
    not wait again for each value that it would record.

    Args:
        open_client: returns the `MlflowClient`.
        place: address of the record, for messages.
        say: function that prints messages about waiting.
    """

    def __init__(self, open_client: Callable[[], Any], place: str, say: Say) -> None:
        self._place = place
        self._say = say
        self._gone = ""
        with self._waiting():
            self._client = open_client()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method):
            return method

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._waiting():
                return method(*args, **kwargs)

        return call

    def log_artifact(self, run_id: str, local_path: str, artifact_path: str | None = None) -> None:
        """Call MLflow's method with a time limit that depends on the size of the file."""
        with self._waiting(), _time_for(os.path.getsize(local_path)):
            self._client.log_artifact(run_id, local_path, artifact_path)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        if self._gone:
            raise _unreachable(self._place, self._gone)
        done, waited = threading.Event(), threading.Event()
        watch = threading.Thread(target=self._watch, args=(done, waited), daemon=True)
        watch.start()
        try:
            yield
        except KeyboardInterrupt:
            if waited.is_set():
                self._gone = "interrupted while waiting for it"
            raise
        except Exception as error:
            reason = _reason(error)
            if reason is None:
                raise
            self._gone = reason
            raise _unreachable(self._place, reason) from error
        finally:
            done.set()
            watch.join()

    def _watch(self, done: threading.Event, waited: threading.Event) -> None:
        passed = 0.0
        while not done.wait(PATIENCE):
            waited.set()
            passed += PATIENCE
            self._say(f"{self._place} has not answered for {passed:.0f} s: still trying (press Ctrl-C to stop)")


@contextmanager
def _time_for(size: int) -> Iterator[None]:
    """Raise the time limit for an answer according to `size` (bytes), unless the user has set a limit."""
    if os.environ.get(TIMEOUT) != BOUNDS[TIMEOUT]:
        yield
        return
    os.environ[TIMEOUT] = str(int(BOUNDS[TIMEOUT]) + size // SLOWEST)
    try:
        yield
    finally:
        os.environ[TIMEOUT] = BOUNDS[TIMEOUT]


def _unreachable(place: str, reason: str) -> RecordUnreachable:
    return RecordUnreachable(
        f"{place}: the record of runs cannot be reached ({reason}). Finished results are kept in the results "
        "folder. When the record can be reached again, rerun the same command to continue"
    )


def _reason(error: Exception) -> str | None:
    """Return the reason why a record cannot be reached; None for an error with another cause."""
    from mlflow.exceptions import MlflowException, RestException
    from requests.exceptions import RequestException
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

    text = without_passwords(" ".join(str(error).split()))
    if isinstance(error, MlflowException):
        if error.get_http_status_code() in (401, 403) or "failed with error code 40" in text:
            return "it rejects the user or the password" if _refused(error, text) else None
        if isinstance(error, RestException):
            return "it answers with errors" if error.get_http_status_code() >= 500 else None
        if "API request to" in text:
            return _short(text)
        return _short(text) if error.error_code == "TEMPORARILY_UNAVAILABLE" else None
    if isinstance(error, RequestException):
        return _short(text)
    disconnected = isinstance(error, OperationalError | InterfaceError)  # other errors may also mean a lost connection
    return _short(text) if disconnected or (isinstance(error, DBAPIError) and error.connection_invalidated) else None


def _refused(error: Any, text: str) -> bool:
    return error.get_http_status_code() in (401, 403) or "error code 401" in text or "error code 403" in text


def _short(text: str) -> str:
    """Return the essential part of an error message of requests or urllib3."""
    for words, gist in (
        ("too many 500", "it answers with error 500"),
        ("too many 50", "it answers with errors"),
        ("too many 429", "it accepts no more requests for now: error 429"),
        ("timed out", "it accepts requests but does not answer"),
        ("timeout", "it accepts requests but does not answer"),
        ("refused", "no server is listening there"),
        ("NameResolution", "its host name is unknown"),
        ("Connection aborted", "it closes connections without an answer"),
    ):
        if words.lower() in text.lower():
            return gist
    return text[:200]
