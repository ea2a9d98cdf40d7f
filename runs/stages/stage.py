"""One way to run every stage: `execute`.

A stage produces the result of one config. Its identity covers everything that can change the result. `execute` does
the work common to all stages: it marks the runs of dead processes, reuses finished results from the record, locks what
it makes and checks the record again, starts a run, writes the result to disk before it is recorded, and marks the run
FINISHED last. A stage defines the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from clustering.foundation.progress import Progress, quiet
from runs.console.endings import explain
from runs.record.patient_client import RecordUnreachable
from runs.record.tracked_run import TrackedRun
from runs.record.tracking import Tracker
from runs.record.unrecorded import Made, Unrecorded
from runs.scheduling.planning import Plan, PlannedStage, State
from runs.storage.locks import Say, silent
from runs.storage.store import Store

P = TypeVar("P")  # what several stages share, such as features
M = TypeVar("M")  # the content
R = TypeVar("R")  # the result: the content and its run


class Workspace(NamedTuple):
    """Where results are stored and reported.

    Attributes:
        store: the folder of results.
        tracker: the record of runs.
        progress: receives messages and bars.
        force: recompute existing results.
    """

    store: Store
    tracker: Tracker
    progress: Progress = quiet
    force: bool = False


class Begun(NamedTuple):
    """A started run.

    Attributes:
        run: the run in the record.
        state: what `begin` passes to the later methods of the stage.
    """

    run: TrackedRun
    state: Any = None


class Stage(ABC, Generic[P, M, R]):
    """Produces the result of one config.

    A subclass implements `run` or `run_together`, and `load` if it has a `file`.

    Attributes:
        kind: kind of stage; the tag `stage` of its runs.
        noun: name in messages, such as "the evaluation".
        file: name of the artifact that holds the content; empty if the content is stored in another way.
        counted: whether a message says how many results are reused.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]
    file: ClassVar[str] = ""
    counted: ClassVar[bool] = True

    @property
    @abstractmethod
    def identity(self) -> str:
        """Identity of the result."""

    @property
    @abstractmethod
    def experiment(self) -> str:
        """MLflow experiment of the run."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in messages and in MLflow."""

    @property
    def together(self) -> Hashable:
        """Key of the batch: stages with equal keys run together."""
        return self.identity

    @property
    def shared(self) -> object:
        """Key of the preparation: consecutive batches with equal keys share the value of `prepare`."""
        return self.together

    @abstractmethod
    def recorded(self, tracker: Tracker, say: Say) -> R | None:
        """The finished result; None if the record has no intact one for this config.

        Args:
            tracker: the record of runs.
            say: receives a message about a run that is damaged or does not fit the config.
        """

    def settle(self, work: Workspace) -> None:
        """Repair what a killed process left in the store; called under the lock, before the record is checked again."""

    def prepare(self, work: Workspace) -> P | None:
        """Inputs of the stage, computed or read once for all stages that share them. An error ends the command."""
        return None

    @abstractmethod
    def begin(self, prepared: P, work: Workspace) -> Begun:
        """Start a run, or resume one. An error is treated like one of `run`."""

    def run(self, begun: Begun, prepared: P, work: Workspace) -> Made[M]:
        """Compute the content. Its `facts` are stored as JSON beside the `file`."""
        raise NotImplementedError

    @classmethod
    def run_together(
        cls, batch: Sequence[tuple[Self, Begun]], prepared: P, work: Workspace
    ) -> Iterable[Made[M] | Exception]:
        """Yield the contents of stages with equal `together`, in order, or the error of one that fails."""
        for stage, begun in batch:
            try:
                made: Made[M] | Exception = stage.run(begun, prepared, work)
            except RecordUnreachable:
                raise  # the others could not be recorded either
            except Exception as error:
                made = error
            yield made

    @staticmethod
    def load(path: Path) -> M:
        """Read the content from its `file`, as written by the `save` method of the content."""
        raise NotImplementedError

    def kept(self, prepared: P, work: Workspace) -> Made[M] | None:
        """A content that was computed before and not recorded; None if there is none."""
        unrecorded = self.unrecorded(work)
        return unrecorded.find(self.file, self.load, work.tracker, force=work.force) if self.file else None

    def keep(self, made: Made[Any], begun: Begun, work: Workspace) -> Path | None:
        """Write the content to disk before it is recorded; returns the artifact of the run, if any."""
        if not self.file:
            return None
        facts = {"forced": work.force, **made.facts}
        return self.unrecorded(work).keep(self.file, made.content.save, begun.run.run_id, **facts)

    def record(self, made: Made[M], begun: Begun, work: Workspace) -> None:
        """Record metrics and tags of the run."""

    @abstractmethod
    def result(self, made: Made[M], begun: Begun, work: Workspace) -> R:
        """The result: the content and its run."""

    def close(self, made: Made[M], begun: Begun, work: Workspace) -> None:
        """Clean up after the run is finished, and report to the user."""
        self.unrecorded(work).drop()

    def unrecorded(self, work: Workspace) -> Unrecorded:
        """Storage of the content between `keep` and `close`."""
        return Unrecorded(work.store, self.kind, self.identity)


S = TypeVar("S", bound=Stage[Any, Any, Any])
Fail = Callable[[Stage[Any, Any, Any], Exception], None]


def execute(
    stages: Sequence[S], work: Workspace, *, check: Callable[[Sequence[Sequence[S]]], object] | None = None
) -> tuple[dict[str, Any], list[tuple[str, Exception]]]:
    """Run stages, or reuse their results. If a stage fails, the others are still run and recorded.

    Args:
        stages: the stages, of one kind.
        work: where results are stored and reported.
        check: called with the batches before any of them runs; an error ends the command.

    Returns:
        Results by identity, and (name, error) of each stage that failed.
    """
    tracker, progress = work.tracker, work.progress
    tracker.mark_orphans_killed()  # even if all results are reused: a killed run may have been forced
    waiting = {stage.identity: stage for stage in stages}
    results: dict[str, Any] = {}
    for identity, stage in waiting.items() if not work.force else ():
        pending = stage.unrecorded(work).pending(tracker)
        if not pending and (result := stage.recorded(tracker, progress.note)) is not None:
            results[identity] = result
    failures: list[tuple[str, Exception]] = []

    def fail(stage: Stage[Any, Any, Any], error: Exception) -> None:
        failures.append((stage.name, error))
        if len(waiting) > 1:
            progress.note(f"failed: {stage.name}: {explain(error)[0]}; the others are kept")

    batches: dict[Hashable, list[S]] = {}
    for identity, stage in waiting.items():
        if identity not in results:
            batches.setdefault(stage.together, []).append(stage)
    if results and stages[0].counted:
        progress.note(f"reused {len(results)}, running {len(waiting) - len(results)}")
    if check is not None:
        check(list(batches.values()))
    prepared: Any = None
    shared: object = None
    for batch in batches.values():
        if prepared is None or batch[0].shared != shared:
            prepared = None  # frees memory first
            prepared, shared = batch[0].prepare(work), batch[0].shared
        results |= _execute(batch, prepared, work, fail)
    return results, failures


def _execute(batch: list[S], prepared: Any, work: Workspace, fail: Fail) -> dict[str, Any]:
    """Lock a batch, check the record again, and make the missing results."""
    results: dict[str, Any] = {}
    with ExitStack() as locks:
        # Locked in the order of identities, so that two processes with overlapping batches cannot deadlock.
        for stage in sorted(batch, key=lambda stage: stage.identity):
            what = f"{stage.noun} of {stage.name}"
            locks.enter_context(work.store.lock(stage.kind, stage.identity, what, work.progress.note))
        rest = []
        for stage in batch:
            work.tracker.mark_orphans_killed(stage.experiment, stage.identity)
            if not work.force:
                stage.settle(work)
            if (kept := stage.kept(prepared, work)) is not None:
                work.progress.note(f"{stage.noun} of {stage.name} was made before and not recorded: recording it")
                results |= _make([stage], prepared, work, fail, kept)
            elif not work.force and (result := stage.recorded(work.tracker, silent)) is not None:
                results[stage.identity] = result  # made by another process meanwhile
            else:
                rest.append(stage)
        return results | _make(rest, prepared, work, fail)


def _make(batch: list[S], prepared: Any, work: Workspace, fail: Fail, kept: Made[Any] | None = None) -> dict[str, Any]:
    """Start runs, compute their contents, write and record these, and mark the runs FINISHED.

    Args:
        batch: stages with equal `together`.
        prepared: value of `prepare`.
        work: where results are stored and reported.
        fail: called with a stage that fails and its error.
        kept: content that the only stage of the batch computed before.
    """
    results: dict[str, Any] = {}
    with ExitStack() as runs:
        begun: list[tuple[S, Begun]] = []
        for stage in batch:
            try:
                begun.append((stage, stage.begin(prepared, work)))
            except RecordUnreachable:
                raise
            except Exception as error:
                fail(stage, error)
                continue
            runs.enter_context(begun[-1][1].run.guarded())
        contents = [kept] if kept is not None else batch[0].run_together(begun, prepared, work) if begun else []
        done = []
        for (stage, at), made in zip(begun, contents, strict=True):
            if isinstance(made, Exception):
                at.run.stop("FAILED", f"{type(made).__name__}: {made}")
                fail(stage, made)
            else:
                done.append((stage, at, made, stage.keep(made, at, work)))
        for stage, at, made, file in done:  # recorded once all of them are on disk: the record may be unreachable
            if file is not None:
                at.run.artifact(file)
            stage.record(made, at, work)
            at.run.finish()
            stage.close(made, at, work)
            results[stage.identity] = stage.result(made, at, work)
    return results


def plan_of(stages: Sequence[Stage[Any, Any, Any]], tracker: Tracker) -> Plan:
    """Plan of these stages: which results exist already, and which runs are needed."""
    steps = []
    for stage in {stage.identity: stage for stage in stages}.values():
        known = tracker.exists() and tracker.find(stage.experiment, stage.identity)
        state: State = "cached" if known else "to do"
        steps.append(
            PlannedStage(stage.kind, stage.name, stage.identity, state, 0 if known else None, 0 if known else 1)
        )
    return Plan(tuple(steps))
