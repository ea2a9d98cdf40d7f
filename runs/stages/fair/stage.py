"""Fair clustering as a stage: methods on data sets with groups, each config a run of its own along all its weights."""

import copy
import dataclasses
import inspect
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from clustering.evaluation.protocol import random_state
from clustering.foundation.code import code_fingerprint
from clustering.foundation.errors import InputError
from clustering.methods import with_known
from fairness.methods import METHODS, UNFAIR, kind_of
from fairness.trade_off import path_weights
from fsl.progress import Progress, quiet
from runs.config.base import identity
from runs.config.fair import FairConfig
from runs.record.tracking import Tracker
from runs.record.unrecorded import Unrecorded
from runs.scheduling.planning import Plan
from runs.stages.clustering.jobs import ClusteringJob
from runs.stages.fair.report import trade_off_of
from runs.stages.fair.results import PATH, FairResult, TradeOff
from runs.stages.lineage import short
from runs.stages.stage_jobs import JobStage, plan_jobs, run_jobs
from runs.storage.locks import Say, silent
from runs.storage.store import Store

if TYPE_CHECKING:
    from clustering.graphs.neighbours import NeighbourGraph
    from fairness.datasets.dataset import FairDataset, FairSource
    from runs.stages.clustering.shared_graphs import SharedGraphs

STAGE = "fair"


@dataclass(frozen=True)
class Job(ClusteringJob[FairConfig]):
    """One config, and what it stands on.

    Attributes:
        source: the built data set.
        clusters: K.
        method: the built estimator, with the config's parameters.
    """

    stage = verb = STAGE

    source: "FairSource"
    clusters: int
    method: Any

    @classmethod
    def of(cls, config: FairConfig) -> "Job":
        """Builds data set and method, which checks their values, and looks at the files.

        Raises:
            InputError: a wrong value, or files that are not there.
        """
        method, source = estimator(config), cast("FairSource", config.dataset.build())
        return cls(config, source.source(), source, _clusters(config, source), method)

    @classmethod
    def on(cls, config: FairConfig, data: str) -> "Job":
        """The job on points of that identity, which need not be here."""
        method, source = estimator(config), cast("FairSource", config.dataset.build())
        return cls(config, data, source, _clusters(config, source), method)

    @property
    def identity(self) -> str:
        keys = self.config.result_keys() | {"n_clusters": self.clusters}
        if not self.weighted:
            del keys["fairness_weight"]
        return identity(STAGE, config=keys, data=self.data, code=self._code)

    @property
    def weighted(self) -> bool:
        """Whether the method has a path of weights."""
        return hasattr(self.method, "path")

    @property
    def _code(self) -> str:
        """Fingerprint of what computes the labels, and of what makes the points."""
        modules = {type(self.method).__module__, type(self.source).__module__}
        return code_fingerprint("fairness.trade_off", "fairness.methods", *sorted(modules))


def _clusters(config: FairConfig, source: "FairSource") -> int:
    found = config.n_clusters or getattr(source, "clusters", None)
    if not found:
        where = f"dataset {short(config.dataset)}"
        raise InputError(f"{where} does not say how many clusters to find; add n_clusters=3, say")
    return int(found)


def fair_clustering(
    configs: Sequence[FairConfig],
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
) -> tuple[list[FairResult], list[Exception]]:
    """The trade-offs of the configs, in order; finished ones are taken from the record.

    Each config is a run of its own. Where a method fails, the others are run and recorded, and its error is given
    beside their results.

    Args:
        force: cluster again, even what is in the record.

    Raises:
        InputError: before anything is clustered, wrong values and missing files.
    """
    jobs = [Job.of(config) for config in configs]

    def read(job: Job) -> "tuple[FairDataset, SharedGraphs]":
        from runs.stages.clustering.shared_graphs import SharedGraphs

        data = job.source.read()
        return data, SharedGraphs(data.values, store.graphs, progress)

    stage = JobStage(
        STAGE,
        "the fair clustering",
        lambda job, say: _finished(job, tracker, say),
        lambda job: (job.config.dataset, job.data),
        read,
        lambda job, shared: _run(job, *shared, store, tracker, progress, force),
    )
    found, failed = run_jobs(jobs, stage, store, tracker, progress, force=force)
    there = {job.identity: job for job in jobs if job.identity in found}
    return [dataclasses.replace(found[name], config=job.config) for name, job in there.items()], failed


def recorded_fair(config: FairConfig, tracker: Tracker, say: Say = silent) -> FairResult | None:
    """The fair clustering of a config as the record has it; None where it is missing or not whole.

    Args:
        say: told of a run that is no longer whole.
    """
    return _finished(Job.of(config), tracker, say)


def points_of(config: FairConfig) -> "FairDataset":
    """The points of a config's data set, in their order."""
    return Job.of(config).source.read()


def plan(configs: Sequence[FairConfig], tracker: Tracker) -> Plan:
    """What these configs would do.

    Raises:
        InputError: as `fair_clustering`, as far as it can be known without reading a point.
    """
    return plan_jobs([Job.of(config) for config in configs], STAGE, tracker)


def estimator(config: FairConfig) -> Any:
    """The method, with shares that were written [name: share, ...] by the names of the groups.

    Raises:
        InputError: a value that it does not take.
    """
    built = config.method.build()
    target = config.method.options.get("target")
    return with_known(built, target=_shares(target)) if target is not None else built


def _shares(target: Any) -> Any:
    from runs.config.overrides import values

    if not isinstance(target, tuple):
        raise InputError(f"target must be shares such as [0.5, 0.5] or [Female: 0.5, Male: 0.5], not {target!r}")
    if not any(isinstance(share, str) for share in target):
        return list(target)
    named: dict[Any, Any] = {}
    for share in target:
        name, colon, text = str(share).rpartition(":")
        if not colon or not name.strip() or not text.strip():
            raise InputError(f"target: {share!r} is not of the form name: share, as in [Female: 0.5, Male: 0.5]")
        named[values("target", name.strip())[0].value] = values("target", text.strip())[0].value
    return named


def _run(
    job: Job,
    data: "FairDataset",
    graphs: "SharedGraphs",
    store: Store,
    tracker: Tracker,
    progress: Progress,
    force: bool,
) -> FairResult:
    points, dimensions = data.values.shape
    shape, sensitive = (points, dimensions), ", ".join(data.sensitive)
    unrecorded = Unrecorded(store, STAGE, job.identity)
    kept = unrecorded.find(PATH, TradeOff.load, tracker, force=force)
    with job.start(shape, job.clusters, tracker, sensitive=sensitive).guarded() as run:
        since = time.perf_counter()
        if kept is None:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found = _trade_off(job, data, graphs, progress)
            _pass_on(said, job, progress)
            seconds = time.perf_counter() - since
        else:
            progress.note(f"{job.name} was clustered before and not recorded: recording it")
            found, seconds, force = kept.result, float(kept.facts["seconds"]), bool(kept.facts["forced"])
        kind, clusters = kind_of(job.method), found.group_counts.shape[2]
        result = FairResult(job.config, job.identity, run.run_id, False, shape, clusters, kind, found)
        run.artifact(unrecorded.keep(PATH, found.save, run.run_id, seconds=seconds, forced=force))
        for step in range(len(found.weights)):
            run.metrics(found.metrics(step), step)
        run.log(metrics=found.best() | {"seconds": seconds})
        run.finish()
    unrecorded.drop()
    return result


def knows_groups(kind: Any) -> bool:
    """Whether a method is told of the groups; else it is seen how fair one is that is not."""
    return "sensitive_features" in inspect.signature(kind.fit).parameters


def _trade_off(job: Job, data: "FairDataset", graphs: "SharedGraphs", progress: Progress) -> TradeOff:
    """The method along its weights, and the objective of the unfair one from the same seeds."""
    groups: Mapping[str, Any] = data.sensitive
    method = _prepared(copy.copy(job.method), job)
    graph = graphs.of(method, job.config.device)
    own: dict[str, Any] = {} if graph is None else {"graph": graph}
    if knows_groups(type(method)):
        own["sensitive_features"] = groups
    weights = job.config.fairness_weight
    with _bar(job, progress) as done:
        if job.weighted:
            # The unfair solution is where a path begins, whatever weights are asked for.
            asked = None if weights is None else sorted({0.0, *weights})
            if "done" in inspect.signature(method.path).parameters:
                own["done"] = done
            fitted = method.path(data.values, asked, **own)
            unfair = float(fitted[0].objective_)
            kept = [one for one in fitted if weights is None or one.fairness_weight in weights]
        else:
            since = time.perf_counter()
            kept = [method.fit(data.values, **own)]
            method.seconds_ = getattr(method, "seconds_", (time.perf_counter() - since,))
            unfair = _unfair(method, job, data, graphs, graph)
        done(1, 1)
    return trade_off_of(kept, unfair, groups)


@contextmanager
def _bar(job: Job, progress: Progress) -> Iterator[Callable[[int, int], None]]:
    """A bar of the weights that a result has; moved by how much of all work is done."""
    total, shown = len(path_weights(job.config.fairness_weight)) if job.weighted else 1, 0
    with progress.track(job.name, total) as advance:

        def done(finished: int, of: int) -> None:
            nonlocal shown
            advance(total * finished // of - shown)
            shown = total * finished // of

        yield done


def _prepared(method: Any, job: Job) -> Any:
    device = job.config.device.partition(":")[0]
    seed = random_state(job.config.seed, 0)
    return with_known(method, n_clusters=job.clusters, device=device, random_state=seed)


def _unfair(
    method: Any, job: Job, data: "FairDataset", graphs: "SharedGraphs", graph: "NeighbourGraph | None"
) -> float:
    """The objective of the unfair method from the same seeds, on the graph of the method where that has one; NaN of an
    objective that only this method knows."""
    kind = kind_of(method)
    if kind not in UNFAIR:
        return math.nan
    shared = ("n_init", "init", "normalize", "n_neighbors")
    same = {name: value for name, value in method.get_params().items() if name in shared}
    base = with_known(_prepared(METHODS.load(UNFAIR[kind])(), job), **same, fairness_weight=0.0)
    graph = graph if graph is not None else graphs.of(base, job.config.device)
    return float(base.fit(data.values, **({} if graph is None else {"graph": graph})).objective_)


def _pass_on(said: Sequence[warnings.WarningMessage], job: Job, progress: Progress) -> None:
    """Warnings, each once; how far from fair or from settled labels are is in the result."""
    from sklearn.exceptions import ConvergenceWarning

    texts = [str(one.message) for one in said if issubclass(one.category, UserWarning)]
    settled = {str(one.message) for one in said if issubclass(one.category, ConvergenceWarning)}
    for text in dict.fromkeys(text for text in texts if text not in settled):
        progress.note(f"{job.name}: {text}")


def _finished(job: Job, tracker: Tracker, say: Say) -> FairResult | None:
    there = job.recorded(tracker, PATH, TradeOff.load, say)
    if there is None:
        return None
    kind, clusters = kind_of(job.method), there.found.group_counts.shape[2]
    return FairResult(job.config, job.identity, there.run_id, True, there.shape, clusters, kind, there.found)
