"""Worker processes of this machine: a `concurrent.futures.Executor` that survives the death of a worker."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from runs.scheduling.relay import CURRENT_PROGRESS, Relay, Sender

P = ParamSpec("P")
R = TypeVar("R")
GRACE = 10.0  # seconds for an interrupted job to mark its runs
INTERRUPTED = 130


class LocalPool(Executor):
    """One process for each running job; idle processes are reused.

    Each process is a pool of its own. If it dies, only its own job fails with `BrokenProcessPool`, whereas Python's
    process pool ends all its processes. A worker ends when the parent process ends for any reason; its job is then
    interrupted as by Ctrl-C. Not thread-safe.

    Args:
        relay: shows the progress bars and notes of the jobs.
        gpus: values of CUDA_VISIBLE_DEVICES for the processes, one GPU for each; if empty, the variable is unchanged.
    """

    def __init__(self, relay: Relay, gpus: Sequence[str] = ()) -> None:
        self._relay = relay
        self._gpus = gpus
        self._workers: list[_Worker] = []

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run a function in an idle process, or in a new one."""
        for worker in [worker for worker in self._workers if worker.is_dead]:
            self._workers.remove(worker)
        worker = next((worker for worker in self._workers if worker.is_idle), None) or self._begin()
        worker.future = worker.pool.submit(_call, fn, args, kwargs)
        worker.theirs.close()  # the process has its own copy by now
        return worker.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the running jobs."""
        for worker in self._workers:
            worker.pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def interrupt(self) -> None:
        """Interrupt the running jobs."""
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.ours.send(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.interrupt()
        self.shutdown()

    def _begin(self) -> "_Worker":
        used_gpus = {worker.gpu for worker in self._workers}
        gpu = next((gpu for gpu in self._gpus if gpu not in used_gpus), None)
        own_end, child_end = multiprocessing.Pipe()
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _start, (child_end, gpu))
        self._relay.add(own_end)
        self._workers.append(_Worker(pool, own_end, child_end, gpu))
        return self._workers[-1]


@dataclass
class _Worker:
    """A process as seen from its parent; `theirs` is the process's end of the pipe."""

    pool: ProcessPoolExecutor
    ours: "Connection[Any, Any]"
    theirs: "Connection[Any, Any]"
    gpu: str | None
    future: "Future[Any] | None" = None

    @property
    def is_idle(self) -> bool:
        return self.future is not None and self.future.done() and not self.is_dead

    @property
    def is_dead(self) -> bool:
        future = self.future
        is_done = future is not None and future.done() and not future.cancelled()
        return is_done and isinstance(future.exception(), BrokenProcessPool)  # type: ignore[union-attr]


# Code that runs in the worker process.


class _Self:
    """State of the worker process."""

    busy = False


def _start(parent: "Connection[Any, Any]", gpu: str | None) -> None:
    """Initialise the worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent receives Ctrl-C, too
    signal.signal(signal.SIGTERM, _end)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    CURRENT_PROGRESS.set(Sender(parent))
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()


def _end_with_parent(parent: "Connection[Any, Any]") -> None:
    """End the process when the parent requests it or no longer exists."""
    with contextlib.suppress(EOFError, OSError):
        parent.recv()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(INTERRUPTED)


def _end(number: int, frame: object) -> None:
    if _Self.busy:
        raise KeyboardInterrupt
    os._exit(0)


def _call(work: Callable[..., R], args: Sequence[Any], kwargs: dict[str, Any]) -> R:
    _Self.busy = True
    try:
        return work(*args, **kwargs)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    finally:
        _Self.busy = False
