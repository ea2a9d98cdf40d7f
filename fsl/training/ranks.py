"""Parallel work in several processes, one per device, that form a process group of `torch.distributed`.

The parent process does no work itself. It shows the reports of rank 0 and returns the result of rank 0. If a process
fails or is killed, the parent ends the others, even if they are waiting. If the parent ends for any reason, the
processes end too.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import torch

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Advance, Log, Progress, quiet
from fsl.training.machine import keep_freed_memory

R = TypeVar("R", covariant=True)
GRACE = 10.0  # seconds in which processes may end by themselves
WAITING = timedelta(hours=6)  # limit for waiting while rank 0 validates; the death of a rank is noticed at once
INTERRUPTED = 130


class Work(Protocol[R]):
    """The work of each process; it must be picklable."""

    def __call__(self, rank: int, log: Log | None, progress: Progress, /) -> R: ...


def in_ranks(work: Work[R], ranks: int, backend: Literal["gloo", "nccl"], log: Log | None, progress: Progress) -> R:
    """Run `work` in several new processes on this machine, which divide the threads of torch equally.

    Args:
        work: function that receives its rank. Only rank 0 uses `log` and `progress`, which act in the calling process.
        ranks: number of processes.
        backend: backend for the exchange of tensors: gloo on CPUs, nccl on GPUs.

    Returns:
        The result of rank 0.

    Raises:
        ChildProcessError: a process was killed.
        InputError: this process is not allowed to start others.
        Exception: `work` raised it in one of the processes.
    """
    if multiprocessing.current_process().daemon:
        raise InputError(
            f"devices={ranks}: this process cannot start others (a Dask worker, for example, cannot); "
            "first run `transduce train` on that machine"
        )
    context = multiprocessing.get_context("spawn")
    threads = max(1, torch.get_num_threads() // ranks)
    members: list[_Member] = []
    with tempfile.TemporaryDirectory(prefix="transduce-ranks-") as folder, _ended(members):
        for rank in range(ranks):
            own_end, child_end = context.Pipe()
            place = _Place(rank, ranks, backend, Path(folder) / "meeting", threads, log is not None)
            process = context.Process(target=_begin, args=(work, place, child_end), daemon=True)
            process.start()
            child_end.close()
            members.append(_Member(rank, process, own_end))
        result: R = _listen(members, log, progress)
        return result


@dataclass(frozen=True)
class _Place:
    """Settings of one process; `meeting` is the file through which the processes connect to each other."""

    rank: int
    ranks: int
    backend: str
    meeting: Path
    threads: int
    logs: bool


@dataclass(eq=False)
class _Member:
    """A process, from the view of the process that started it."""

    rank: int
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    done: bool = False
    result: Any = None

    @property
    def is_lost(self) -> bool:
        """Whether the process ended before it finished its work."""
        return not self.done and not self.process.is_alive()

    def heard(self) -> tuple[Any, ...]:
        """The next message of the process; empty if there is none."""
        try:
            return self.pipe.recv() if self.pipe.poll() else ()
        except (EOFError, OSError):
            return ()  # the process has ended, which its sentinel shows


@contextmanager
def _ended(members: Sequence[_Member]) -> Iterator[None]:
    """End all processes with the block. Processes that finished their work end by themselves."""
    try:
        yield
        for member in members:
            member.process.join(GRACE)
    finally:
        for member in members:
            member.process.kill()
        for member in members:
            member.process.join()
            member.pipe.close()


def _listen(members: Sequence[_Member], log: Log | None, progress: Progress) -> Any:
    """Receive messages until all processes are done, and return the result of rank 0."""
    with contextlib.closing(_Screen(log, progress)) as screen:
        while under_way := [member for member in members if not member.done]:
            wait([*(m.pipe for m in under_way if m.process.is_alive()), *(m.process.sentinel for m in under_way)])
            for member in under_way:
                ended = member.is_lost  # determined first, so that messages sent before its end are still read
                while message := member.heard():
                    _take(member, message, members, screen)
                if ended and not member.done:
                    raise _loss(member, len(members))
    return members[0].result


def _take(member: _Member, message: tuple[Any, ...], members: Sequence[_Member], screen: "_Screen") -> None:
    kind, *contents = message
    if kind == "done":
        member.done, member.result = True, contents[0]
    elif kind == "failed":
        error: Exception = contents[0]
        others = [other for other in members if other is not member]
        if not isinstance(error, InputError) and wait([other.process.sentinel for other in others], timeout=1.0):
            # if one process is killed, the others fail because they can no longer reach it
            for other in others:
                if other.is_lost:
                    raise _loss(other, len(members)) from error
        raise error
    else:
        screen.show(kind, *contents)
        if kind == "metrics":
            member.pipe.send(None)  # the process saves an epoch only after it is logged


def _loss(member: _Member, ranks: int) -> ChildProcessError:
    code = member.process.exitcode or 0
    cause = (
        f"was killed by signal {-code}, perhaps because memory ran out" if code < 0 else f"ended with exit code {code}"
    )
    return ChildProcessError(
        f"process {member.rank + 1} of {ranks} {cause}; the last saved state is kept: run the same command again"
    )


class _Screen:
    """Output of the reports of rank 0."""

    def __init__(self, log: Log | None, progress: Progress) -> None:
        self._log, self._progress = log, progress
        self._bar = contextlib.ExitStack()

    def show(self, kind: str, *contents: Any) -> None:
        if kind == "metrics" and self._log is not None:
            self._log.metrics(*contents)
        elif kind == "note":
            self._progress.note(*contents)
        elif kind == "open":
            self._advance: Advance = self._bar.enter_context(self._progress.track(*contents))
        elif kind == "advance":
            count, numbers = contents
            self._advance(count, **numbers)
        elif kind == "close":
            self._bar.close()

    def close(self) -> None:
        self._bar.close()


# The code below runs in the new processes.


class _Reporter:
    """Log and progress of rank 0, which send all reports to the parent process."""

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self._pipe = pipe

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self._pipe.send(("metrics", dict(values), step))
        self._pipe.recv()

    def note(self, text: str) -> None:
        self._pipe.send(("note", text))

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Advance]:
        self._pipe.send(("open", description, total))

        def advance(n: int = 1, **numbers: float) -> None:
            self._pipe.send(("advance", n, numbers))

        yield advance
        self._pipe.send(("close",))


def _begin(work: Work[Any], place: _Place, pipe: "Connection[Any, Any]") -> None:
    """Main function of a new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    keep_freed_memory()
    torch.set_num_threads(place.threads)
    os.environ["LOCAL_RANK"] = str(place.rank)  # with this, Lightning starts no processes of its own
    if Path("/sys/class/net/lo").exists():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all processes are on this machine
    reporter = _Reporter(pipe)
    try:
        torch.distributed.init_process_group(
            place.backend,
            init_method=place.meeting.as_uri(),
            rank=place.rank,
            world_size=place.ranks,
            timeout=WAITING,
        )
        if place.rank == 0:
            result = work(0, reporter if place.logs else None, reporter)
        else:
            result = work(place.rank, None, quiet)
    except BaseException as error:
        with contextlib.suppress(OSError):
            pipe.send(("failed", _sendable(error)))
        # If this process ended now, the other processes would fail too, and their errors would hide this one.
        threading.Event().wait(GRACE)
        os._exit(1)
    pipe.send(("done", result if place.rank == 0 else None))
    torch.distributed.destroy_process_group()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(INTERRUPTED)


def _sendable(error: BaseException) -> Exception:
    """The error with its traceback as a note; a RuntimeError with its message if it cannot be pickled."""
    trace = "".join(traceback.format_exception(error))
    sendable: Exception = RuntimeError(f"{type(error).__name__}: {error}")
    with contextlib.suppress(Exception):
        copy = pickle.loads(pickle.dumps(error))
        sendable = copy if isinstance(copy, Exception) else sendable
    sendable.add_note(trace)
    return sendable
