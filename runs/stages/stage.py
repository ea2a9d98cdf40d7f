"""One way to run every stage: `execute`.

A stage produces the result of one config. Its key covers everything that can change the result. `execute` reuses what
is in the cache, computes the rest under the locks of the keys, publishes each result to the cache and then records it
in MLflow. A result that is in the cache and not in MLflow is recorded.
"""

import hashlib
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Entry, Store
from runs.config.base import RunConfig, group_of, top_level
from runs.config.groups import option
from runs.console.endings import explain
from runs.plan import Plan, PlannedStage, State
from runs.record.address import RecordUnreachable
from runs.track import COMMAND, PARENT, DataUsed, TrackedRun, Tracker

P = TypeVar("P")  # what several stages share, such as features
M = TypeVar("M")  # the content
R = TypeVar("R")  # the result: the content and its run

Empty: Mapping[str, Any] = MappingProxyType({})
DAMAGE = (
    InputError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OSError,
    EOFError,
    RecursionError,
    zipfile.BadZipFile,
)  # errors of reading a file


class Workspace(NamedTuple):
    """Where results are stored and reported.

    Attributes:
        store: the results folder.
        tracker: the record of runs.
        progress: receives messages and bars.
        force: recompute existing results.
    """

    store: Store
    tracker: Tracker
    progress: Progress = quiet
    force: bool = False


class Computed(NamedTuple, Generic[M]):
    """A computed result.

    Attributes:
        content: what `save` writes and `load` reads.
        metrics: metrics of the run.
        tags: tags of the run that are known only after the computation.
        inputs: fingerprints of the cached results that were used, by `Entry.name`.
        data: the data sets that were read.
    """

    content: M
    metrics: Mapping[str, float] = Empty
    tags: Mapping[str, Any] = Empty
    inputs: Mapping[str, str] = Empty
    data: Sequence[DataUsed] = ()


class Stage(ABC, Generic[P, M, R]):
    """Produces the result of one config.

    A subclass implements `compute` or `compute_batch`.

    Attributes:
        kind: kind of the result: its folder in the cache, and the tag `stage` of its runs.
        noun: name in messages, such as "the evaluation".
        counted: whether a message says how many results are reused.
        artifacts: data files of the result that are artifacts of its run, too.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]
    counted: ClassVar[bool] = True
    artifacts: ClassVar[tuple[str, ...]] = ()

    config: Any

    @property
    @abstractmethod
    def key(self) -> str:
        """Key of the result."""

    @property
    @abstractmethod
    def experiment(self) -> str:
        """MLflow experiment of the run."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in messages and in MLflow."""

    @property
    def batch(self) -> Hashable:
        """Stages with equal values are computed together."""
        return self.key

    @property
    def shared(self) -> object:
        """Consecutive batches with equal values share what `prepare` returns."""
        return self.batch

    @property
    def parent_run(self) -> str:
        """Id of the parent run; empty: the parent run of the command, if it has several configs."""
        return ""

    @property
    def tags(self) -> Mapping[str, Any]:
        """Tags of the run that are known before the computation."""
        return Empty

    @property
    def params(self) -> Mapping[str, Any]:
        """Params of the run."""
        return set_values(self.config)

    @property
    def yaml(self) -> str:
        """The whole config as YAML, from which the command can be repeated."""
        return str(self.config.to_yaml())

    @property
    def flat(self) -> Mapping[str, Any]:
        """The whole config, which `RunRow.params` shows."""
        flat: Mapping[str, Any] = self.config.flat()
        return flat

    def prepare(self, work: Workspace) -> P:
        """Return the inputs, computed or read once for all stages that share them. An error ends the command."""
        return None  # type: ignore[return-value]

    def check(self, prepared: P) -> None:
        """Raise an error of the user's that can be seen before a run is started."""

    def compute(self, run: TrackedRun, prepared: P, work: Workspace) -> Computed[M]:
        """Return the content. Curves may be logged to the run meanwhile."""
        raise NotImplementedError

    @classmethod
    def compute_batch(
        cls, batch: Sequence[tuple[Self, TrackedRun]], prepared: P, work: Workspace
    ) -> Iterable[Computed[M] | Exception]:
        """Yield the contents of stages with equal `batch`, in order, or the error of one that fails."""
        for stage, run in batch:
            try:
                computed: Computed[M] | Exception = stage.compute(run, prepared, work)
            except RecordUnreachable:
                raise  # the others could not be recorded either
            except Exception as error:
                computed = work.tracker.failure(error) or error  # of Lightning's logger
                if isinstance(computed, RecordUnreachable):
                    raise computed from error
            yield computed

    @abstractmethod
    def save(self, content: M, folder: Path) -> None:
        """Write the content to a folder, as one or several files."""

    @abstractmethod
    def load(self, entry: Entry) -> M:
        """Read the content that `save` wrote."""

    def log(self, run: TrackedRun, content: M, entry: Entry) -> None:
        """Record more than metrics, tags and artifacts, such as values by step."""

    @abstractmethod
    def result(self, content: M, entry: Entry, run_id: str) -> R:
        """Return the result: the content and its run."""

    def report(self, content: M, work: Workspace) -> None:
        """Tell the user about a new result."""

    def find(self, store: Store, tracker: Tracker) -> R | None:
        """Return the finished result; None if it is not in the cache. A result without a run has an empty run id."""
        entry = store.find(self.kind, self.key)
        if entry is None:
            return None
        run_id = tracker.recorded([(self.experiment, entry, self.parent_run)]).get(entry.name, "")
        try:
            return self.result(self.load(entry), entry, run_id)
        except DAMAGE as error:
            store.put_aside(entry.path, str(error), tracker.say)
            return None


def set_values(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a config that differ from the defaults, and the name of each group's option."""
    flat, values = config.flat(), dict[str, Any]()
    for group, choice in config.choices().items():
        values[group] = choice.name
        try:
            defaults: Mapping[str, Any] = option(group_of(type(config), group), choice.name).options
        except InputError:  # an option that is no longer there
            defaults = Empty
        for name, value in choice.options.items():
            if name not in defaults or defaults[name] != value:
                values[f"{group}.{name}"] = flat.get(f"{group}.{name}")
    for field in top_level(type(config)):
        if getattr(config, field.name) != field.default:
            values |= {name: flat[name] for name in flat if name == field.name or name.startswith(f"{field.name}.")}
    return {name: value for name, value in values.items() if name in flat}


S = TypeVar("S", bound=Stage[Any, Any, Any])
Failures = list[tuple[str, Exception]]


def execute(
    stages: Sequence[S], work: Workspace, *, check: Callable[[Sequence[Sequence[S]]], object] | None = None
) -> tuple[dict[str, Any], Failures]:
    """Compute stages, or reuse their results. If a stage fails, the others are still computed and recorded.

    Args:
        stages: the stages, of one kind.
        work: where results are stored and reported.
        check: called with the batches before any of them is computed; an error ends the command.

    Returns:
        Results by key, and (name, error) of each stage that failed.
    """
    if not any(stage.parent_run for stage in stages):  # not for each step of a tuning
        work.tracker.end_dead_runs()
    waiting = {stage.key: stage for stage in stages}
    execution = _Execution(work, list(waiting.values()))
    with execution.parents():
        entries = {} if work.force else execution.entries(list(waiting.values()))
        results = execution.reuse([(waiting[key], entry) for key, entry in entries.items()])
        batches: dict[Hashable, list[S]] = {}
        for key, stage in waiting.items():
            if key not in results:
                batches.setdefault(stage.batch, []).append(stage)
        if results and stages[0].counted:
            work.progress.note(f"reused {len(results)}, running {len(waiting) - len(results)}")
        if check is not None:
            check(list(batches.values()))
        prepared: Any = None
        shared: object = None
        for batch in batches.values():
            if prepared is None or batch[0].shared != shared:
                prepared = None  # frees memory first
                prepared, shared = batch[0].prepare(work), batch[0].shared
            results |= execution.run(batch, prepared)
    return results, execution.failures


class _Execution:
    """The state of one call of `execute`."""

    def __init__(self, work: Workspace, stages: Sequence[Stage[Any, Any, Any]]) -> None:
        self.work, self.stages = work, stages
        self.failures: Failures = []
        self._parents: dict[str, str] = {}
        self._open = ExitStack()

    def entries(self, stages: Sequence[Stage[Any, Any, Any]], *, held: bool = False) -> dict[str, Entry]:
        """Return the results in the cache, by key."""
        found = {
            stage.key: self.work.store.find(stage.kind, stage.key, self.work.progress.note, held=held)
            for stage in stages
        }
        return {key: entry for key, entry in found.items() if entry is not None}

    def reuse(self, cached: Sequence[tuple[Stage[Any, Any, Any], Entry]], *, held: bool = False) -> dict[str, Any]:
        """Return results of the cache by key. Those that are not in MLflow are recorded; damaged ones are left out."""
        tracker, results = self.work.tracker, {}
        recorded = tracker.recorded([(stage.experiment, entry, stage.parent_run) for stage, entry in cached])
        for stage, entry in cached:
            try:
                content = stage.load(entry)
            except DAMAGE as error:
                self.work.store.put_aside(entry.path, str(error), self.work.progress.note)
                continue
            run_id = recorded.get(entry.name, "")
            if not run_id and held:
                run_id = self._record(stage, content, entry, *self._runs([stage]))
            elif not run_id:
                what = f"{stage.noun} of {stage.name}"
                with self.work.store.lock(stage.kind, stage.key, what, self.work.progress.note):
                    again = tracker.recorded([(stage.experiment, entry, stage.parent_run)])
                    run_id = again.get(entry.name) or self._record(stage, content, entry, *self._runs([stage]))
            results[stage.key] = stage.result(content, entry, run_id)
        return results

    def run(self, batch: Sequence[Stage[Any, Any, Any]], prepared: Any) -> dict[str, Any]:
        """Lock a batch, look into the cache again, and compute the missing results."""
        with ExitStack() as locks:
            # Locked in the order of keys, so that two processes with overlapping batches cannot deadlock.
            for stage in sorted(batch, key=lambda stage: stage.key):
                what = f"{stage.noun} of {stage.name}"
                locks.enter_context(self.work.store.lock(stage.kind, stage.key, what, self.work.progress.note))
            entries = {} if self.work.force else self.entries(batch, held=True)
            results = self.reuse([(stage, entries[stage.key]) for stage in batch if stage.key in entries], held=True)
            return results | self._compute([stage for stage in batch if stage.key not in results], prepared)

    def _compute(self, batch: Sequence[Stage[Any, Any, Any]], prepared: Any) -> dict[str, Any]:
        """Start runs, compute the results, publish them to the cache, and record them."""
        batch = [stage for stage in batch if self._passes(stage, prepared)]
        if not batch:
            return {}
        work, results = self.work, {}
        with ExitStack() as guards:
            started = list(zip(batch, self._runs(batch), strict=True))
            for _, run in started:
                guards.enter_context(run.guarded())
            published = []
            for (stage, run), found in zip(started, batch[0].compute_batch(started, prepared, work), strict=True):
                if isinstance(found, Exception):
                    run.stop("FAILED", f"{type(found).__name__}: {found}")
                    self._fail(stage, found)
                    continue
                published.append((stage, run, found.content, self._publish(stage, found)))
            for stage, run, content, entry in published:  # after all are in the cache: the record may be unreachable
                run_id = self._record(stage, content, entry, run)
                results[stage.key] = stage.result(content, entry, run_id)
                stage.report(content, work)
        return results

    def _passes(self, stage: Stage[Any, Any, Any], prepared: Any) -> bool:
        try:
            stage.check(prepared)
        except Exception as error:
            self._fail(stage, error)
            return False
        return True

    def _publish(self, stage: Stage[Any, Any, Any], found: Computed[Any]) -> Entry:
        facts = {"tags": dict(found.tags), "inputs": dict(found.inputs), "data": [list(used) for used in found.data]}
        return self.work.store.publish(
            stage.kind,
            stage.key,
            lambda folder: stage.save(found.content, folder),
            config=stage.yaml,
            metrics=found.metrics,
            facts=facts,
        )

    def _runs(self, batch: Sequence[Stage[Any, Any, Any]]) -> list[TrackedRun]:
        """Return a run for each stage: its unfinished one, or a new one."""
        keys, first = [stage.key for stage in batch], batch[0]
        runs = self.work.tracker.unfinished(first.experiment, keys, first.parent_run)
        for stage in batch:
            if stage.key in runs:
                self.work.progress.note(f"going on with the interrupted run of {stage.name}")
        return [runs.get(stage.key) or self._start(stage) for stage in batch]

    def _start(self, stage: Stage[Any, Any, Any]) -> TrackedRun:
        return self.work.tracker.start(
            stage.experiment,
            stage.name,
            stage=stage.kind,
            key=stage.key,
            params=stage.params,
            config=stage.yaml,
            tags=stage.tags,
            flat=stage.flat,
            parent=self._parent_of(stage),
        )

    def _record(self, stage: Stage[Any, Any, Any], content: Any, entry: Entry, run: TrackedRun) -> str:
        """Record a result of the cache in its run, mark the run FINISHED, and return the run's id."""
        with run.guarded():
            run.log(metrics=entry.metrics, tags=entry.facts.get("tags", {}) | {"fingerprint": entry.fingerprint})
            run.data([DataUsed(*used) for used in entry.facts.get("data", ())])
            for path in (entry.path / name for name in stage.artifacts):
                if path.is_file():  # a model card may be deleted
                    run.artifact(path)
            stage.log(run, content, entry)
            run.finish()
        self.work.tracker.note(entry, run.run_id, stage.parent_run)
        return run.run_id

    def _fail(self, stage: Stage[Any, Any, Any], error: Exception) -> None:
        self.failures.append((stage.name, error))
        if len(self.stages) > 1:
            self.work.progress.note(f"failed: {stage.name}: {explain(error)[0]}; the others are kept")

    @contextmanager
    def parents(self) -> Iterator[None]:
        """Keep the parent runs of the command open during the block; then they get the status of the command."""
        with self._open:
            yield

    def _parent_of(self, stage: Stage[Any, Any, Any]) -> str:
        """Return the id of a stage's parent run, which is started if the command has several configs."""
        if stage.parent_run:
            return stage.parent_run
        group = [other for other in self.stages if other.experiment == stage.experiment]
        if outer := os.environ.get("MLFLOW_RUN_ID"):  # of MLflow projects, and of a command with several processes
            return outer
        if len(group) == 1:
            return ""
        if stage.experiment not in self._parents:
            keys = "".join(sorted(other.key for other in group))
            key = hashlib.sha256(keys.encode()).hexdigest()[:16]
            name = f"{stage.experiment.partition('/')[0]} {len(group)} configs"
            opened = self.work.tracker.command(stage.experiment, name, key, self.failures)
            self._parents[stage.experiment] = self._open.enter_context(opened)
        return self._parents[stage.experiment]


def plan_of(stages: Sequence[Stage[Any, Any, Any]], store: Store) -> Plan:
    """Return the plan of these stages: which results are in the cache, and which runs are needed."""
    steps = []
    for stage in {stage.key: stage for stage in stages}.values():
        known = store.peek(stage.kind, stage.key)
        state: State = "cached" if known else "to do"
        steps.append(PlannedStage(stage.kind, stage.name, stage.key, state, 0 if known else 1))
    return Plan(tuple(steps))


__all__ = ["COMMAND", "PARENT", "Computed", "Stage", "Workspace", "execute", "plan_of", "set_values"]
