"""One way to run every stage: `execute`.

A stage produces the result of one config. Its key covers everything that can change the result. `execute` reuses what
is in the cache, computes the rest under the locks of the keys, publishes each result to the cache and then records it
in MLflow. A result that is in the cache and not in MLflow is recorded.
"""

import hashlib
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Entry, Store
from runs.config.base import RunConfig, group_of, top_level
from runs.config.groups import option
from runs.console.endings import explain
from runs.record.address import RecordUnreachable
from runs.track import DataUsed, TrackedRun, Tracker

DAMAGE = (OSError, EOFError, zipfile.BadZipFile, RecursionError, ValueError, LookupError, TypeError, AttributeError)
"""Errors of reading a damaged file."""


class Workspace(NamedTuple):
    """Where results are stored and recorded, and where messages go; with `force`, existing results are recomputed."""

    store: Store
    tracker: Tracker
    progress: Progress = quiet
    force: bool = False


class Computed(NamedTuple):
    """A computed result."""

    content: Any  # what `save` writes and `load` reads
    metrics: Mapping[str, float] = {}  # metrics of the run
    tags: Mapping[str, Any] = {}  # tags of the run that are known only after the computation
    inputs: Mapping[str, str] = {}  # fingerprints of the cached results that were used, by `Entry.name`
    data: Sequence[DataUsed] = ()  # the data sets that were read


@dataclass(frozen=True, kw_only=True)
class Stage(ABC):
    """Produces the result of one config. A subclass implements `compute` or `compute_batch`, and `result`."""

    kind: ClassVar[str]  # kind of the result: its folder in the cache, and the tag `stage` of its runs
    artifacts: ClassVar[tuple[str, ...]] = ()  # data files of the result that are artifacts of its run, too
    form: ClassVar[Any]  # class of the content, whose `save` and `load` take the path of the first artifact

    config: Any  # the config whose settings are the params of the run
    key: str  # key of the result
    experiment: str  # MLflow experiment of the run
    name: str  # name in messages and in MLflow
    tags: Mapping[str, Any] = field(default_factory=dict)  # tags of the run that are known before the computation
    batch: Hashable = None  # stages with equal values are computed together; None: each alone
    shared: object = None  # consecutive batches with equal values share what `prepare` returns; None: as `batch`
    parent_run: str = ""  # id of the parent run; empty: the parent run of the command, if it has several configs
    asked: Any = None  # the config from which the command can be repeated; None: `config`

    def prepare(self, work: Workspace) -> Any:
        """Return the inputs, computed or read once for all stages that share them. An error ends the command."""
        return None

    def check(self, prepared: Any) -> None:
        """Raise an error of the user's that can be seen before a run is started."""
        return

    def compute(self, run: TrackedRun, prepared: Any, work: Workspace) -> Computed:
        """Return the content. Curves may be logged to the run meanwhile."""
        raise NotImplementedError

    @classmethod
    def compute_batch(
        cls, batch: Sequence[tuple[Self, TrackedRun]], prepared: Any, work: Workspace
    ) -> Iterable[Computed | Exception]:
        """Yield the contents of stages with equal `batch`, in order, or the error of one that fails."""
        for stage, run in batch:
            try:
                computed: Computed | Exception = stage.compute(run, prepared, work)
            except RecordUnreachable:
                raise  # the others could not be recorded either
            except Exception as error:
                computed = work.tracker.failure(error) or error  # of Lightning's logger
                if isinstance(computed, RecordUnreachable):
                    raise computed from error
            yield computed

    def save(self, content: Any, folder: Path) -> None:
        """Write the content to a folder, as one or several files."""
        content.save(folder / self.artifacts[0])

    def load(self, entry: Entry) -> Any:
        """Read the content that `save` wrote."""
        return self.form.load(entry.path / self.artifacts[0])

    def log(self, run: TrackedRun, content: Any, entry: Entry) -> None:
        """Record more than metrics, tags and artifacts, such as values by step."""
        return

    @abstractmethod
    def result(self, content: Any, entry: Entry, run_id: str) -> Any:
        """Return the result: the content and its run."""

    def find(self, store: Store, tracker: Tracker) -> Any | None:
        """Return the finished result; None if it is not in the cache. A result without a run has an empty run id."""
        entry = store.find(self.kind, self.key)
        if entry is None:
            return None
        run_id = tracker.recorded([(entry, self.parent_run)]).get(entry.name, "")
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
            defaults = {}
        for name, value in choice.options.items():
            if name not in defaults or defaults[name] != value:
                values[f"{group}.{name}"] = flat.get(f"{group}.{name}")
    for own in top_level(type(config)):
        if getattr(config, own.name) != own.default:
            values |= {name: flat[name] for name in flat if name.partition(".")[0] == own.name}
    return {name: value for name, value in values.items() if name in flat}


S = TypeVar("S", bound=Stage)
T = TypeVar("T")
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
    waiting = {stage.key: stage for stage in stages}
    with ExitStack() as parents:  # the parent runs of the command are open until its end, and then get their status
        execution = _Execution(work, list(waiting.values()), parents)
        parents.callback(execution.note)
        results = {} if work.force else execution.reuse(execution.stages)
        nested = any(stage.parent_run for stage in stages)  # steps of a tuning
        if not nested and (work.tracker.is_open or len(results) < len(waiting)):
            work.tracker.end_dead_runs()
        batches: dict[Hashable, list[S]] = {}
        for key, stage in waiting.items():
            if key not in results:
                batches.setdefault(stage.batch or key, []).append(stage)
        if results and len(waiting) > 1:
            work.progress.note(f"reused {len(results)}, running {len(waiting) - len(results)}")
        if check is not None:
            check(list(batches.values()))
        prepared: Any = None
        before: object = None
        for batch, members in batches.items():
            shared = members[0].shared or batch
            if shared != before:
                prepared = None  # frees memory first
                prepared, before = members[0].prepare(work), shared
            results |= execution.run(members, prepared)
    return results, execution.failures


@dataclass
class _Execution:
    """The state of one call of `execute`."""

    work: Workspace
    stages: Sequence[Stage]
    parents: ExitStack
    failures: Failures = field(default_factory=list)
    parent_ids: dict[str, str] = field(default_factory=dict)
    recorded: list[tuple[Entry, str, str]] = field(default_factory=list)  # with its run, and the parent of that

    def lock(self, stage: Stage) -> AbstractContextManager[None]:
        what = f"the {stage.kind} of {stage.name}"
        return self.work.store.lock(stage.kind, stage.key, what, self.work.progress.note)

    def reuse(self, stages: Sequence[Stage], *, held: bool = False) -> dict[str, Any]:
        """Return results of the cache by key. Those that are not in MLflow are recorded; damaged ones are left out.

        Args:
            held: whether the locks of the stages are held.
        """
        (store, tracker, progress, _), results = self.work, {}
        found = [(stage, store.find(stage.kind, stage.key, progress.note, held=held)) for stage in stages]
        cached = [(stage, entry) for stage, entry in found if entry is not None]
        recorded = tracker.recorded([(entry, stage.parent_run) for stage, entry in cached])
        for stage, entry in cached:
            try:
                content = stage.load(entry)
            except DAMAGE as error:
                store.put_aside(entry.path, str(error), progress.note)
                continue
            run_id = recorded.get(entry.name, "")
            if not run_id:
                with nullcontext() if held else self.lock(stage):
                    again = {} if held else tracker.recorded([(entry, stage.parent_run)])
                    run_id = again.get(entry.name) or self._record(stage, content, entry, *self._runs([stage]))
            self.recorded.append((entry, run_id, stage.parent_run))
            results[stage.key] = stage.result(content, entry, run_id)
        return results

    def note(self) -> None:
        """Note in the cache which runs record the results: the next command need not open an unchanged record."""
        tracker = self.work.tracker
        for entry, run_id, parent in self.recorded:
            entry.note_run(tracker.note_of(parent), run_id, tracker.state)

    def run(self, batch: Sequence[Stage], prepared: Any) -> dict[str, Any]:
        """Lock a batch, look into the cache again, compute the missing results, publish and record them."""
        work, started, published = self.work, list[Stage](), list[tuple[Stage, TrackedRun, Any, Entry]]()
        with ExitStack() as held:
            # Locked in the order of keys, so that two processes with overlapping batches cannot deadlock.
            for stage in sorted(batch, key=lambda stage: stage.key):
                held.enter_context(self.lock(stage))
            results = {} if work.force else self.reuse(batch, held=True)
            for stage in batch:
                try:
                    if stage.key not in results:
                        stage.check(prepared)
                        started.append(stage)
                except Exception as error:
                    self._fail(stage, error)
            runs = list(zip(started, self._runs(started), strict=True))
            for _, run in runs:
                held.enter_context(run.guarded())
            computed = started[0].compute_batch(runs, prepared, work) if started else ()
            for (stage, run), found in zip(runs, computed, strict=True):
                if isinstance(found, Exception):
                    run.stop("FAILED", f"{type(found).__name__}: {found}")
                    self._fail(stage, found)
                    continue
                facts = {"tags": dict(found.tags), "inputs": dict(found.inputs), "data": list(map(list, found.data))}
                about = {"config": (stage.asked or stage.config).to_yaml(), "metrics": found.metrics, "facts": facts}
                entry = work.store.publish(stage.kind, stage.key, partial(stage.save, found.content), **about)
                published.append((stage, run, found.content, entry))
            for stage, run, content, entry in published:  # after all are in the cache: the record may be unreachable
                results[stage.key] = stage.result(content, entry, self._record(stage, content, entry, run))
        return results

    def _runs(self, batch: Sequence[Stage]) -> list[TrackedRun]:
        """Return a run for each stage: its unfinished one, or a new one."""
        tracker, runs = self.work.tracker, dict[str, TrackedRun]()
        if batch:
            runs = tracker.unfinished(batch[0].experiment, [stage.key for stage in batch], batch[0].parent_run)
        for stage in batch:
            tuned = stage.asked.strategy.grids if stage.asked else ()
            flat, params = stage.config.flat(), set_values(stage.config)
            params |= {f"strategy.{name}": flat[f"strategy.{name}"] for name in tuned}
            about: dict[str, Any] = {"tags": stage.tags, "params": params}
            about["config"] = (stage.asked or stage.config).to_yaml()
            if stage.key in runs:
                self.work.progress.note(f"going on with the interrupted run of {stage.name}")
                tracker.describe(runs[stage.key], **about)
                continue
            about |= {"stage": stage.kind, "key": stage.key, "parent": self._parent_of(stage)}
            runs[stage.key] = tracker.start(stage.experiment, stage.name, **about)
        return [runs[stage.key] for stage in batch]

    def _record(self, stage: Stage, content: Any, entry: Entry, run: TrackedRun) -> str:
        """Record a result of the cache in its run, mark the run FINISHED, and return the run's id."""
        with run.guarded():
            run.log(metrics=entry.metrics, tags=entry.facts.get("tags", {}) | {"fingerprint": entry.fingerprint})
            run.data([DataUsed(*used) for used in entry.facts.get("data", ())])
            for name in stage.artifacts:
                run.artifact(entry.path / name)
            stage.log(run, content, entry)
            run.finish()
        self.recorded.append((entry, run.run_id, stage.parent_run))
        return run.run_id

    def _fail(self, stage: Stage, error: Exception) -> None:
        self.failures.append((stage.name, error))
        if len(self.stages) > 1:
            self.work.progress.note(f"failed: {stage.name}: {explain(error)[0]}; the others are kept")

    def _parent_of(self, stage: Stage) -> str:
        """Return the id of a stage's parent run, which is started if the command has several configs."""
        experiment = stage.experiment
        outer = stage.parent_run or os.environ.get("MLFLOW_RUN_ID")  # of MLflow projects, and of several processes
        keys = sorted(other.key for other in self.stages if other.experiment == experiment)
        if outer or len(keys) == 1:
            return outer or ""
        if experiment not in self.parent_ids:
            key = hashlib.sha256("".join(keys).encode()).hexdigest()[:16]
            name = f"{experiment.partition('/')[0]} {len(keys)} configs"
            command = self.work.tracker.command(experiment, name, key, self.failures)
            self.parent_ids[experiment] = self.parents.enter_context(command)
        return self.parent_ids[experiment]


def cached(work: Workspace, kind: str, key: str, what: str, load: Callable[[Entry], T], make: Callable[[], Entry]) -> T:
    """Return a result without a run of its own: from the cache, or made and published under the lock of its key."""
    store, say = work.store, work.progress.note
    with store.lock(kind, key, what, say):
        entry = None if work.force else store.find(kind, key, say, held=True)
        if entry is not None:
            try:
                return load(entry)
            except DAMAGE as error:
                store.put_aside(entry.path, str(error), say)
        return load(make())
