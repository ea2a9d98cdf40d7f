"""Jobs of a stage whose results are in the record alone: what is there is used again, the rest is run, one after the
other, each as a run of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from fsl.progress import Progress
from runs.console.endings import explain
from runs.record.patient_client import RecordUnreachable
from runs.record.tracking import Tracker
from runs.record.unrecorded import Unrecorded
from runs.scheduling.planning import Plan, State, Step
from runs.storage.locks import Say
from runs.storage.store import Store


class StageJob(Protocol):
    """What is known of a job before it is run."""

    @property
    def identity(self) -> str:
        """Of its result."""

    @property
    def experiment(self) -> str:
        """That its run belongs to."""

    @property
    def name(self) -> str:
        """What a person calls it."""


J = TypeVar("J", bound=StageJob)
R = TypeVar("R")
D = TypeVar("D")


@dataclass(frozen=True)
class JobStage(Generic[J, D, R]):
    """How a stage does its jobs.

    Attributes:
        name: of the stage.
        noun: "the clustering", for messages.
        recorded: the result as the record has it; None where it is missing, or not whole, which is said.
        data: what tells the data of jobs apart; jobs on the same that follow each other share them.
        read: the data of a job.
        run: the job, as a run of the record.
    """

    name: str
    noun: str
    recorded: Callable[[J, Say], R | None]
    data: Callable[[J], object]
    read: Callable[[J], D]
    run: Callable[[J, D], R]


def run_jobs(
    jobs: Sequence[J], stage: JobStage[J, D, R], store: Store, tracker: Tracker, progress: Progress, *, force: bool
) -> tuple[dict[str, R], list[Exception]]:
    """Results by identity; where a job fails the others are run and recorded, and its error is given beside them.

    Args:
        force: run again, even what is in the record.
    """
    tracker.bury()  # also where all is reused: what was killed may have been forced
    by_identity = {job.identity: job for job in jobs}
    found: dict[str, R] = {}
    for identity, job in by_identity.items():
        if force or Unrecorded(store, stage.name, identity).pending(tracker):
            continue
        if (known := stage.recorded(job, progress.note)) is not None:
            found[identity] = known
    waiting = {identity: job for identity, job in by_identity.items() if identity not in found}
    if found:
        progress.note(f"reused {len(found)}, running {len(waiting)}")
    failed: list[Exception] = []
    for _, same in groupby(waiting.items(), key=lambda item: stage.data(item[1])):
        there = list(same)
        data = stage.read(there[0][1])
        for identity, job in there:
            with store.lock(stage.name, identity, f"{stage.noun} of {job.name}", progress.note):
                tracker.bury(job.experiment, identity)
                pending = force or Unrecorded(store, stage.name, identity).pending(tracker, held=True)
                if not pending and (known := stage.recorded(job, progress.note)) is not None:
                    found[identity] = known  # another process was at it
                    continue
                try:
                    found[identity] = stage.run(job, data)
                except RecordUnreachable:
                    raise  # nor could any other be recorded
                except Exception as error:
                    if len(by_identity) > 1:
                        progress.note(f"failed: {job.name}: {explain(error)[0]}; the others are kept")
                    failed.append(error)
    return found, failed


def plan_jobs(jobs: Sequence[StageJob], stage: str, tracker: Tracker) -> Plan:
    """What these jobs would do."""
    steps = {}
    for job in jobs:
        known = tracker.find(job.experiment, job.identity) if tracker.exists() else None
        state: State = "cached" if known else "to do"
        steps[job.identity] = Step(stage, job.name, job.identity, state, None if not known else 0, 0 if known else 1)
    return Plan(tuple(steps.values()))
