"""One way to run every stage: `execute`.

A stage is one config on its way to one result, whose identity covers everything that can change the result.
`execute` does what must be right each time: it marks the runs of dead processes, takes finished results from the
record, holds the lock of what it makes and looks once more, begins a run, keeps a result on disk before any of it goes
into the record, and marks the run FINISHED last. A stage says what is particular to it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from fsl.progress import Progress, quiet
from runs.console.endings import explain
from runs.record.patient_client import RecordUnreachable
from runs.record.tracked_run import TrackedRun
from runs.record.tracking import Tracker
from runs.record.unrecorded import Made, Unrecorded
from runs.scheduling.planning import Plan, PlannedStage, State
from runs.storage.locks import Say, silent
from runs.storage.store import Store

P = TypeVar("P")  # what stages that are worked on together share, such as features
M = TypeVar("M")  # the content that is made
R = TypeVar("R")  # the result: the content with its run


class Workspace(NamedTuple):
    """Where results go, and who is told about them.

    Attributes:
        force: make results again, even those that are there.
    """

    store: Store
    tracker: Tracker
    progress: Progress = quiet
    force: bool = False


class Begun(NamedTuple):
    """A run that was begun.

    Attributes:
        state: what the stage needs of the beginning later on.
    """

    run: TrackedRun
    state: Any = None


class Stage(ABC, Generic[P, M, R]):
    """One config on its way to one result.

    Attributes:
        kind: of stage; the tag `stage` of its runs.
        noun: for messages, such as "the evaluation".
        file: name of the file of its run that holds the content; empty for contents that are kept in another way.
        counted: it is said how many are reused.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]
    file: ClassVar[str] = ""
    counted: ClassVar[bool] = True

    @property
    @abstractmethod
    def identity(self) -> str:
        """Of its result."""

    @property
    @abstractmethod
    def experiment(self) -> str:
        """That its run belongs to."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a person calls it."""

    @property
    def together(self) -> Hashable:
        """Stages of equal value are run at once."""
        return self.identity

    @property
    def shared(self) -> object:
        """Stages of equal value that follow each other share what `prepare` gives."""
        return self.together

    @abstractmethod
    def recorded(self, tracker: Tracker, say: Say) -> R | None:
        """The finished result; None where there is none that is whole and fits the config.

        Args:
            say: told of a run that is no longer whole, or does not fit.
        """

    def settle(self, work: Workspace) -> None:
        """Mend what a kill left in the store; called under the lock, before it is looked again."""

    def prepare(self, work: Workspace) -> P | None:
        """What the stage stands on: made or read once for all that share it. An error ends the command."""
        return None

    @abstractmethod
    def begin(self, prepared: P, work: Workspace) -> Begun:
        """Its run, new or taken up again. An error counts as one of `run`."""

    def run(self, begun: Begun, prepared: P, work: Workspace) -> Made[M]:
        """Make the content; what is noted about it goes into JSON where there is a `file`."""
        raise NotImplementedError

    @classmethod
    def run_together(
        cls, batch: Sequence[tuple[Self, Begun]], prepared: P, work: Workspace
    ) -> Iterable[Made[M] | Exception]:
        """Make the contents of stages with equal `together`, in order; in the place of one that fails its error."""
        for stage, begun in batch:
            try:
                made: Made[M] | Exception = stage.run(begun, prepared, work)
            except RecordUnreachable:
                raise  # nor could any other be recorded
            except Exception as error:
                made = error
            yield made

    @staticmethod
    def load(path: Path) -> M:
        """The content of the `file`, which the content's own `save` has written."""
        raise NotImplementedError

    def kept(self, prepared: P, work: Workspace) -> Made[M] | None:
        """What was made before and could not be recorded."""
        unrecorded = self.unrecorded(work)
        return unrecorded.find(self.file, self.load, work.tracker, force=work.force) if self.file else None

    def keep(self, made: Made[Any], begun: Begun, work: Workspace) -> Path | None:
        """Write the content to disk, before any of it goes into the record; the file that its run is to have."""
        if not self.file:
            return None
        facts = {"forced": work.force, **made.facts}
        return self.unrecorded(work).keep(self.file, made.content.save, begun.run.run_id, **facts)

    def record(self, made: Made[M], begun: Begun, work: Workspace) -> None:
        """Put metrics and tags into the run, beside the file."""

    @abstractmethod
    def result(self, made: Made[M], begun: Begun, work: Workspace) -> R:
        """The content with its run."""

    def close(self, made: Made[M], begun: Begun, work: Workspace) -> None:
        """When the run is finished: remove what only an interrupted one needs, and say what the user should know."""
        self.unrecorded(work).drop()

    def unrecorded(self, work: Workspace) -> Unrecorded:
        """The place of the content between `keep` and `close`."""
        return Unrecorded(work.store, self.kind, self.identity)


S = TypeVar("S", bound=Stage[Any, Any, Any])
Fail = Callable[[Stage[Any, Any, Any], Exception], None]


def execute(
    stages: Sequence[S], work: Workspace, *, check: Callable[[Sequence[Sequence[S]]], object] | None = None
) -> tuple[dict[str, Any], list[tuple[str, Exception]]]:
    """The results of stages by identity, and where some fail their errors by name: the others are made and recorded.

    Args:
        check: is shown the batches that are to be run, before any of them is; what it raises ends the command.
    """
    tracker, progress = work.tracker, work.progress
    tracker.bury()  # also where all is reused: what was killed may have been forced
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
            prepared = None  # makes room first
            prepared, shared = batch[0].prepare(work), batch[0].shared
        results |= _execute(batch, prepared, work, fail)
    return results, failures


def _execute(batch: list[S], prepared: Any, work: Workspace, fail: Fail) -> dict[str, Any]:
    """Hold the locks of a batch, look again what is there, and make the rest."""
    results: dict[str, Any] = {}
    with ExitStack() as locks:
        # In the order of identities: two processes with overlapping batches cannot wait for each other.
        for stage in sorted(batch, key=lambda stage: stage.identity):
            what = f"{stage.noun} of {stage.name}"
            locks.enter_context(work.store.lock(stage.kind, stage.identity, what, work.progress.note))
        rest = []
        for stage in batch:
            work.tracker.bury(stage.experiment, stage.identity)
            if not work.force:
                stage.settle(work)
            if (kept := stage.kept(prepared, work)) is not None:
                work.progress.note(f"{stage.noun} of {stage.name} was made before and not recorded: recording it")
                results |= _make([stage], prepared, work, fail, kept)
            elif not work.force and (result := stage.recorded(work.tracker, silent)) is not None:
                results[stage.identity] = result  # another process was at it
            else:
                rest.append(stage)
        return results | _make(rest, prepared, work, fail)


def _make(batch: list[S], prepared: Any, work: Workspace, fail: Fail, kept: Made[Any] | None = None) -> dict[str, Any]:
    """Begin runs, make what goes into them, keep it, record it, and mark them FINISHED.

    Args:
        kept: what the only stage of the batch made before.
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
        for stage, at, made, file in done:  # when all of them are kept: the record may be out of reach
            if file is not None:
                at.run.artifact(file)
            stage.record(made, at, work)
            at.run.finish()
            stage.close(made, at, work)
            results[stage.identity] = stage.result(made, at, work)
    return results


def plan_of(stages: Sequence[Stage[Any, Any, Any]], tracker: Tracker) -> Plan:
    """What these stages would do."""
    steps = []
    for stage in {stage.identity: stage for stage in stages}.values():
        known = tracker.exists() and tracker.find(stage.experiment, stage.identity)
        state: State = "cached" if known else "to do"
        steps.append(
            PlannedStage(stage.kind, stage.name, stage.identity, state, 0 if known else None, 0 if known else 1)
        )
    return Plan(tuple(steps))
