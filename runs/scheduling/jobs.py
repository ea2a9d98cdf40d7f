"""A job: configs that are worked on together in another process, as plain data, and how it is done there."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clustering.foundation.errors import InputError
from fsl.progress import Advance, quiet
from runs.config.configs import EvaluateConfig, parse
from runs.console.endings import explain
from runs.record.passwords import without_passwords
from runs.record.patient_client import RecordUnreachable
from runs.record.place import ENVIRONMENT
from runs.record.tracking import Tracker
from runs.scheduling import relay
from runs.storage.store import Store

if TYPE_CHECKING:
    from fsl.progress import Progress

Kind = Literal["features", "evaluation"]

# Of several jobs in one process, as a Dask worker of several threads has them: torch's number of threads, the working
# folder and the closed splits are the process's.
_ALONE = threading.Lock()


@dataclass(frozen=True)
class Job:
    """Work for one process, all of it text and numbers.

    Attributes:
        kind: "features" trains where it must and extracts; "evaluation" tunes where it must and evaluates.
        name: what a person calls it.
        arguments: of each config, what would be typed.
        evaluations: how many wait for it or are made in it.
        results: the folder of results.
        uri: MLflow's tracking URI; None where the record is in the results.
        folder: where the command was given; what relative paths mean.
        token: a file in the results that says that they are the same ones.
        seconds: how long it will take, as far as it is known.
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
    """What did not come to its end.

    Attributes:
        name: of the run, or of the job where all of it failed.
        why: what is wrong, and what to do where the user can mend it.
        code: the exit code it stands for.
        evaluations: how many were not made for it.
        ends_all: nothing else could be done either.
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
        more = f" ({self.evaluations} evaluations)" if self.evaluations > 1 else ""
        return f"{self.name}{more}: {self.why}"


@dataclass(frozen=True)
class Report:
    """What became of a job.

    Attributes:
        made: evaluations that were made.
        reused: evaluations that another process had made meanwhile.
        failures: what failed.
        notes: what was to be said and had nobody to listen.
    """

    made: int = 0
    reused: int = 0
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()


class KeptNotes:
    """A `fsl.progress.Progress` without a screen: it keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def track(self, description: str, total: int) -> contextlib.AbstractContextManager[Advance]:
        return quiet.track(description, total)


def perform(job: Job, cores: int | None = None) -> Report:
    """Do a job. What fails is in the report; only an interruption is raised.

    Args:
        cores: how many threads torch may use; None: as many as it would.
    """
    kept = KeptNotes()
    progress = relay.HERE.get() or kept
    strategies: list[tuple[str, Exception]] = []
    failures: list[Failure] = []
    made = reused = 0
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
                    made, reused = _evaluate(configs, store, tracker, progress, strategies)
        except Exception as error:
            failures.append(Failure.of(job.name, error, job.evaluations))
    failures[:0] = [Failure.of(name, error) for name, error in strategies]
    return Report(made, reused, tuple(failures), tuple(kept.notes))


def check_place(results: str, token: str, uri: str | None) -> None:
    """That this process sees the results folder of the command, and writes to its record.

    Raises:
        InputError: it does not.
    """
    where = f"process {os.getpid()} on {socket.gethostname()}"
    if not (Path(results) / token).exists():
        raise InputError(
            f"{where} does not see the results folder {results} of the command; "
            "put it where all workers see it under the same path, and name it with results=FOLDER"
        )
    if uri is None and os.environ.get(ENVIRONMENT):
        given = without_passwords(os.environ[ENVIRONMENT])
        raise InputError(f"{where} has {ENVIRONMENT}={given}, and the command has none; set it for both or neither")


@contextlib.contextmanager
def _at(folder: str) -> Iterator[None]:
    """In that folder, where it is there: what is absolute needs none."""
    with contextlib.chdir(folder) if Path(folder).is_dir() else contextlib.nullcontext():
        yield


def _use(cores: int | None) -> None:
    import torch

    from fsl.training.machine import keep_freed_memory

    keep_freed_memory()
    if cores is not None:
        most = os.environ.get("OMP_NUM_THREADS", "")
        torch.set_num_threads(min(cores, int(most)) if most.isdigit() and int(most) else cores)


def _extract(configs: Sequence[EvaluateConfig], store: Store, tracker: Tracker, progress: "Progress") -> None:
    from runs.scheduling.planning import splits_of
    from runs.stages.banks import features
    from runs.stages.evaluations import check

    wrong = []
    for config in configs:  # before hours of training
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
