"""Fair clustering as a stage: methods on data sets with groups; each config has one run for all its weights."""

import copy
import dataclasses
import inspect
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from clustering.evaluation.protocol import random_state
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from clustering.methods import with_known
from fairness.methods import METHODS, UNFAIR, kind_of
from fairness.trade_off import path_weights
from runs.cache import Entry, Store, key
from runs.config.fair import FairConfig
from runs.plan import Plan
from runs.record.tracked_run import TrackedRun
from runs.stages.fair.report import trade_off_of
from runs.stages.fair.results import PATH, FairResult, TradeOff
from runs.stages.lineage import short
from runs.stages.points import Points, PointsStage
from runs.stages.revisions import revisions_of
from runs.stages.stage import Computed, Workspace, execute, plan_of
from runs.storage.locks import Say, silent
from runs.track import Tracker

if TYPE_CHECKING:
    from clustering.graphs.neighbours import NeighbourGraph
    from fairness.datasets.dataset import FairDataset, FairSource
    from runs.stages.clustering.shared_graphs import SharedGraphs


@dataclass(frozen=True)
class FairStage(PointsStage[FairConfig, TradeOff, FairResult]):
    """One config whose method is fitted to points with groups, along its weights.

    Attributes:
        clusters: number of clusters K.
        method: the built estimator with the parameters of the config.
    """

    kind = verb = "fair"
    noun, artifacts = "the fair clustering", (PATH,)

    clusters: int
    method: Any

    @classmethod
    def on(cls, config: FairConfig, data: str | None = None) -> "FairStage":
        """Return the stage of a config on points with that identity; None: on the points of the config.

        Data set and method are built, which checks their values. Points given by identity need not exist on this
        machine.

        Raises:
            InputError: a wrong value, or missing files.
        """
        method, source = estimator(config), cast("FairSource", config.dataset.build())
        return cls(config, source.source() if data is None else data, source, _clusters(config, source), method)

    @property
    def key(self) -> str:
        keys = self.config.result_keys() | {"n_clusters": self.clusters}
        if not self.weighted:
            del keys["fairness_weight"]
        return key(self.kind, keys, {"data": self.data}, revisions_of(self.config))

    @property
    def weighted(self) -> bool:
        """Whether the method has a path of weights."""
        return hasattr(self.method, "path")

    def prepare(self, work: Workspace) -> Points:
        from runs.stages.clustering.shared_graphs import SharedGraphs

        data = self.source.read()
        return Points(data, SharedGraphs(data.values, work.progress))

    def compute(self, run: TrackedRun, prepared: Points, work: Workspace) -> Computed[TradeOff]:
        since = time.perf_counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = trade_off_on(self, prepared.data, prepared.graphs, work.progress)
        _pass_on(said, self, work.progress)
        numbers = found.best() | {"seconds": time.perf_counter() - since}
        return self.computed(found, prepared, self.clusters, numbers, sensitive=", ".join(prepared.data.sensitive))

    def save(self, content: TradeOff, folder: Path) -> None:
        content.save(folder / PATH)

    def load(self, entry: Entry) -> TradeOff:
        return TradeOff.load(entry.path / PATH)

    def log(self, run: TrackedRun, content: TradeOff, entry: Entry) -> None:
        for step in range(len(content.weights)):
            run.metrics(content.metrics(step), step)

    def found(
        self, content: TradeOff, run_id: str, shape: tuple[int, int], n_clusters: int, *, reused: bool
    ) -> FairResult:
        clusters = content.group_counts.shape[2]
        return FairResult(self.config, self.key, run_id, reused, shape, clusters, kind_of(self.method), content)


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
    """Return the trade-offs of the configs, in order, and the errors; finished trade-offs are taken from the cache.

    Each config has a run of its own. If a method fails, the others are run and recorded, and its error is returned with
    their results.

    Args:
        force: cluster again, even if the result is in the cache.

    Raises:
        InputError: wrong values or missing files; raised before anything is clustered.
    """
    stages = [FairStage.on(config) for config in configs]
    results, failures = execute(stages, Workspace(store, tracker, progress, force))
    made = {stage.key: stage for stage in stages if stage.key in results}
    found = [dataclasses.replace(results[name], config=stage.config) for name, stage in made.items()]
    return found, [error for _, error in failures]


def recorded_fair(config: FairConfig, tracker: Tracker, say: Say = silent) -> FairResult | None:
    """Return the fair clustering of a config from the cache; None if it is missing or damaged.

    Args:
        say: function that reports a damaged result.
    """
    return FairStage.on(config).find(tracker.store, tracker)


def points_of(config: FairConfig) -> "FairDataset":
    """Read the points of a config's data set, in their order."""
    data: FairDataset = FairStage.on(config).source.read()
    return data


def plan(configs: Sequence[FairConfig], store: Store) -> Plan:
    """Return the plan of these configs.

    Raises:
        InputError: as `fair_clustering`, as far as it can be checked without reading points.
    """
    return plan_of([FairStage.on(config) for config in configs], store)


def estimator(config: FairConfig) -> Any:
    """Return the method; a target given as [name: share, ...] becomes a dictionary by name of the group.

    Raises:
        InputError: a wrong value.
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


def knows_groups(kind: Any) -> bool:
    """Return whether a method takes the groups; otherwise, only the fairness of its labels is measured."""
    return "sensitive_features" in inspect.signature(kind.fit).parameters


def trade_off_on(stage: FairStage, data: "FairDataset", graphs: "SharedGraphs", progress: Progress) -> TradeOff:
    """Return the results of the method along its weights, and the objective of the unfair method with equal seeds."""
    groups: Mapping[str, Any] = data.sensitive
    method = _prepared(copy.copy(stage.method), stage)
    graph = graphs.of(method, stage.config.device)
    own: dict[str, Any] = {} if graph is None else {"graph": graph}
    if knows_groups(type(method)):
        own["sensitive_features"] = groups
    weights = stage.config.fairness_weight
    with _bar(stage, progress) as done:
        if stage.weighted:
            # A path begins with the unfair solution, whatever weights are requested.
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
            unfair = _unfair(method, stage, data, graphs, graph)
        done(1, 1)
    return trade_off_of(kept, unfair, groups)


@contextmanager
def _bar(stage: FairStage, progress: Progress) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar of the weights, and yield the function that advances it by the fraction of work done."""
    total, shown = len(path_weights(stage.config.fairness_weight)) if stage.weighted else 1, 0
    with progress.track(stage.name, total) as advance:

        def done(finished: int, of: int) -> None:
            nonlocal shown
            advance(total * finished // of - shown)
            shown = total * finished // of

        yield done


def _prepared(method: Any, stage: FairStage) -> Any:
    device = stage.config.device.partition(":")[0]
    seed = random_state(stage.config.seed, 0)
    return with_known(method, n_clusters=stage.clusters, device=device, random_state=seed)


def _unfair(
    method: Any, stage: FairStage, data: "FairDataset", graphs: "SharedGraphs", graph: "NeighbourGraph | None"
) -> float:
    """Return the objective of the unfair method with the same seeds, and the same graph if the method has one; NaN for
    an objective without an unfair method."""
    kind = kind_of(method)
    if kind not in UNFAIR:
        return math.nan
    shared = ("n_init", "init", "normalize", "n_neighbors")
    same = {name: value for name, value in method.get_params().items() if name in shared}
    base = with_known(_prepared(METHODS.load(UNFAIR[kind])(), stage), **same, fairness_weight=0.0)
    graph = graph if graph is not None else graphs.of(base, stage.config.device)
    return float(base.fit(data.values, **({} if graph is None else {"graph": graph})).objective_)


def _pass_on(said: Sequence[warnings.WarningMessage], stage: FairStage, progress: Progress) -> None:
    """Report each warning once, except those about convergence and fairness, which the result shows."""
    from sklearn.exceptions import ConvergenceWarning

    texts = [str(one.message) for one in said if issubclass(one.category, UserWarning)]
    settled = {str(one.message) for one in said if issubclass(one.category, ConvergenceWarning)}
    for text in dict.fromkeys(text for text in texts if text not in settled):
        progress.note(f"{stage.name}: {text}")
