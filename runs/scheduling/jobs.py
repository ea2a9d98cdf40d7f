"""A job: configs that are computed together in another process, as plain data, and the function that computes them."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Advance, quiet
from runs.cache import Store
from runs.config.configs import EvaluateConfig, parse
from runs.console.endings import explain
from runs.record.address import ENVIRONMENT, RecordUnreachable
from runs.record.passwords import without_passwords
from runs.scheduling import relay
from runs.track import Tracker

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress

Kind = Literal["features", "evaluation"]

# A Dask worker with several threads runs several jobs in one process. They share torch's number of threads, the working
# folder and the closed splits.
_ALONE = threading.Lock()


@dataclass(frozen=True)
class Job:
    """Work for one process; all fields are text or numbers.

    Attributes:
        kind: "features": train if necessary and extract; "evaluation": tune if necessary and evaluate.
        name: name of the job in messages.
        arguments: the command-line arguments of each config.
        evaluations: number of evaluations that depend on the job or are computed in it.
        results: the results folder.
        uri: MLflow's tracking URI; None if the record is in the results folder.
        folder: working folder of the command, to which relative paths refer.
        token: a file in the results folder; it proves that the worker sees the same folder.
        seconds: estimated duration, as far as it is known.
    """

    kind: Kind
    name: str
    arguments: tuple[tuple[str, ...], ...]
    evaluations: int
    results: str
    uri: str | None
    folder: str
    token: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A failed run or job.

    Attributes:
        name: name of the run, or of the job if all of it failed.
        why: the error, and the remedy if the user can correct it.
        code: the corresponding exit code.
        evaluations: number of evaluations that could not be computed because of the failure.
        ends_all: whether every other job would fail, too.
    """

    name: str
    why: str
    code: int
    evaluations: int = 1
    ends_all: bool = False

    @classmethod
    def of(cls, name: str, error: BaseException, evaluations: int = 1) -> "Failure":
        return cls(name, *explain(error), evaluations, isinstance(error, RecordUnreachable))

    def __str__(self) -> str:
        count = f" ({self.evaluations} evaluations)" if self.evaluations > 1 else ""
        return f"{self.name}{count}: {self.why}"


@dataclass(frozen=True)
class Report:
    """The outcome of a job.

    Attributes:
        made: number of new evaluations.
        reused: number of evaluations that another process computed in the meantime.
        failures: the failures.
        notes: messages that could not be shown while the job ran.
    """

    made: int = 0
    reused: int = 0
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()


class KeptNotes:
    """A `clustering.foundation.progress.Progress` without a screen, which keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def track(self, description: str, total: int) -> contextlib.AbstractContextManager[Advance]:
        return quiet.track(description, total)


def perform(job: Job, cores: int | None = None) -> Report:
    """Run a job. Failures are part of the report; only an interruption is raised.

    Args:
        cores: maximum number of torch threads; None: torch's default.
    """
    kept = KeptNotes()
    progress = relay.CURRENT_PROGRESS.get() or kept
    strategies: list[tuple[str, Exception]] = []
    failures: list[Failure] = []
    computed = reused = 0
    with _ALONE:
        try:
            check_place(job.results, job.token, job.uri)
            with _at(job.folder):
                _use(cores)
                store = Store(job.results)
                tracker = Tracker(store, uri=job.uri, say=progress.note)
                configs = [config for typed in job.arguments for config in parse(EvaluateConfig, typed)]
                if job.kind == "features":
                    _extract(configs, store, tracker, progress)
                else:
                    computed, reused = _evaluate(configs, store, tracker, progress, strategies)
        except Exception as error:
            failures.append(Failure.of(job.name, error, job.evaluations))
    failures[:0] = [Failure.of(name, error) for name, error in strategies]
    return Report(computed, reused, tuple(failures), tuple(kept.notes))


def check_place(results: str, token: str, uri: str | None) -> None:
    """Check that this process sees the results folder of the command, and writes to its record.

    Raises:
        InputError: the check fails.
    """
    process = f"process {os.getpid()} on {socket.gethostname()}"
    if not (Path(results) / token).exists():
        raise InputError(
            f"{process} cannot access the results folder {results} of the command; "
            "set results= to a folder that all workers access under the same path"
        )
    if uri is None and os.environ.get(ENVIRONMENT):
        address = without_passwords(os.environ[ENVIRONMENT])
        raise InputError(f"{process} has {ENVIRONMENT}={address}, but the command does not; set it for both or neither")


@contextlib.contextmanager
def _at(folder: str) -> Iterator[None]:
    """Change to a folder if it exists. Absolute paths do not depend on it."""
    with contextlib.chdir(folder) if Path(folder).is_dir() else contextlib.nullcontext():
        yield


def _use(cores: int | None) -> None:
    import torch

    from fsl.machine import keep_freed_memory

    keep_freed_memory()
    if cores is not None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        torch.set_num_threads(min(cores, int(limit)) if limit.isdigit() and int(limit) else cores)


def _extract(configs: Sequence[EvaluateConfig], store: Store, tracker: Tracker, progress: "Progress") -> None:
    from runs.scheduling.planning import splits_of
    from runs.stages.banks import features
    from runs.stages.evaluations import check

    wrong = []
    for config in configs:  # checked before hours of training
        try:
            check([config], store, tracker, progress)
        except InputError as error:
            wrong.append(error)
    if len(wrong) == len(configs):
        raise wrong[0]
    for config in configs:
        for split in splits_of(config):
            features(config, split, store, tracker, progress=progress)


def _evaluate(
    configs: Sequence[EvaluateConfig],
    store: Store,
    tracker: Tracker,
    progress: "Progress",
    failures: list[tuple[str, Exception]],
) -> tuple[int, int]:
    from runs.stages.pipeline import evaluation

    results = evaluation(configs, store, tracker, progress=progress, failures=failures)
    reused = sum(result.reused for result in results)
    return len(results) - reused, reused
