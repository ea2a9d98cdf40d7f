"""Fair clustering as a stage: methods on data sets with groups; each config has one run for all its weights."""

import copy
import dataclasses
import inspect
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.protocol import random_state
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from clustering.methods import with_known
from fairness.methods import METHODS, UNFAIR, kind_of
from fairness.trade_off import path_weights
from runs.cache import Entry, Store
from runs.config.fair import FairConfig
from runs.plan import Plan
from runs.record.tracked_run import TrackedRun
from runs.stages.fair.results import PATH, FairResult, TradeOff
from runs.stages.lineage import short
from runs.stages.points import Points, PointsStage
from runs.stages.stage import Computed, Workspace, execute, plan_of
from runs.storage.locks import Say, silent
from runs.track import Tracker

if TYPE_CHECKING:
    from fairness.datasets.dataset import FairDataset


@dataclass(frozen=True, kw_only=True)
class FairStage(PointsStage):
    """One config whose method is fitted to points with groups, along its weights.

    Attributes:
        clusters: number of clusters K.
        method: the built estimator with the parameters of the config.
    """

    kind = "fair"
    artifacts = (PATH,)

    clusters: int
    method: Any

    @classmethod
    def on(cls, config: FairConfig) -> "FairStage":
        """Return the stage of a config. Data set and method are built, which checks their values.

        Raises:
            InputError: a wrong value, or missing files.
        """
        method, clusters = estimator(config), config.n_clusters or getattr(config.dataset.build(), "clusters", None)
        if not clusters:
            where = f"dataset {short(config.dataset)}"
            raise InputError(f"{where} does not say how many clusters to find; add n_clusters=3, say")
        keys = config.result_keys() | {"n_clusters": int(clusters)}
        if not hasattr(method, "path"):  # it has no weights
            del keys["fairness_weight"]
        return cls(clusters=int(clusters), method=method, **cls.described("fair", config, keys, {}, {}))

    def compute(self, run: TrackedRun, prepared: Points, work: Workspace) -> Computed:
        from sklearn.exceptions import ConvergenceWarning

        since = time.perf_counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = self._fit(prepared, work.progress)
        kinds = {str(one.message): one.category for one in said if issubclass(one.category, UserWarning)}
        for text, kind in kinds.items():
            if not issubclass(kind, ConvergenceWarning):  # which the result shows
                work.progress.note(f"{self.name}: {text}")
        numbers = found.best() | {"seconds": time.perf_counter() - since}
        return self.computed(found, prepared, self.clusters, numbers, sensitive=", ".join(prepared.data.sensitive))

    def _fit(self, points: Points, progress: Progress) -> TradeOff:
        """Return the results of the method along its weights, and the objective of the unfair method with equal
        seeds."""
        from runs.stages.clustering.shared_graphs import shares_of

        method, (data, graphs), weights = self._seeded(copy.copy(self.method)), points, self.config.fairness_weight
        graph, weighted = graphs.of(method, self.config.device), hasattr(method, "path")
        own: dict[str, Any] = {} if graph is None else {"graph": graph}
        if knows_groups(type(method)):
            own["sensitive_features"] = data.sensitive
        with shares_of(progress, self.name, len(path_weights(weights)) if weighted else 1) as done:
            if weighted:
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
                unfair = math.nan
                if (kind := kind_of(method)) in UNFAIR:  # the same seeds, and the same graph if the method has one
                    shared = ("n_init", "init", "normalize", "n_neighbors")
                    same = {name: value for name, value in method.get_params().items() if name in shared}
                    base = with_known(self._seeded(METHODS.load(UNFAIR[kind])()), **same, fairness_weight=0.0)
                    graph = graph if graph is not None else graphs.of(base, self.config.device)
                    given = {} if graph is None else {"graph": graph}
                    unfair = float(base.fit(data.values, **given).objective_)
        return trade_off_of(kept, unfair, data.sensitive)

    def _seeded(self, method: Any) -> Any:
        device, seed = self.config.device.partition(":")[0], random_state(self.config.seed, 0)
        return with_known(method, n_clusters=self.clusters, device=device, random_state=seed)

    def save(self, content: TradeOff, folder: Path) -> None:
        content.save(folder / PATH)

    def load(self, entry: Entry) -> TradeOff:
        return TradeOff.load(entry.path / PATH)

    def log(self, run: TrackedRun, content: TradeOff, entry: Entry) -> None:
        for step in range(len(content.weights)):
            run.metrics(content.metrics(step), step)

    def result(self, content: TradeOff, entry: Entry, run_id: str) -> FairResult:
        found = FairResult(*self.about(entry, run_id), kind_of(self.method), content)
        return dataclasses.replace(found, n_clusters=content.group_counts.shape[2])


def fair_clustering(
    configs: Sequence[FairConfig], store: Store, tracker: Tracker, *, progress: Progress = quiet, force: bool = False
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
    """Return the fair clustering of a config from the cache; None if it is missing or damaged."""
    return FairStage.on(config).find(tracker.store, tracker)


def points_of(config: FairConfig) -> "FairDataset":
    """Read the points of a config's data set, in their order."""
    data: FairDataset = FairStage.on(config).read()
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
    from runs.config.overrides import values

    built, target = config.method.build(), config.method.options.get("target")
    if target is None:
        return built
    if not isinstance(target, tuple):
        raise InputError(f"target must be shares such as [0.5, 0.5] or [Female: 0.5, Male: 0.5], not {target!r}")
    if not any(isinstance(share, str) for share in target):
        return with_known(built, target=list(target))
    named: dict[Any, Any] = {}
    for share in target:
        name, colon, text = str(share).rpartition(":")
        if not colon or not name.strip() or not text.strip():
            raise InputError(f"target: {share!r} is not of the form name: share, as in [Female: 0.5, Male: 0.5]")
        named[values("target", name.strip())[0].value] = values("target", text.strip())[0].value
    return with_known(built, target=named)


def knows_groups(kind: Any) -> bool:
    """Return whether a method takes the groups; otherwise, only the fairness of its labels is measured."""
    return "sensitive_features" in inspect.signature(kind.fit).parameters


def trade_off_of(fitted: Sequence[Any], unfair: float, groups: Mapping[str, Any]) -> TradeOff:
    """Return the results of fitted estimators, of this project or of a plug-in that has only labels.

    Args:
        fitted: estimators by increasing weight.
        unfair: objective of the unfair method; NaN if there is none.
        groups: group of every point, by attribute.

    Raises:
        InputError: an estimator has no labels 0..K-1.
    """
    from fairness.groups import groups_of
    from fairness.reporting import keep_fairness

    for model in fitted:
        if hasattr(model, "group_labels_"):
            continue
        labels = np.asarray(getattr(model, "labels_", ()))
        clusters = getattr(model, "n_clusters", math.inf)  # some methods determine the number of clusters themselves
        if labels.ndim != 1 or not len(labels) or labels.min() < 0 or labels.max() >= clusters:
            raise InputError(
                f"method {type(model).__module__}:{type(model).__qualname__} must have labels_ 0..n_clusters-1 after "
                "fit; give a class whose fit sets them"
            )
        keep_fairness(model, labels, groups_of(groups, len(labels)))

    def each(*names: str, default: Any = np.nan) -> NDArray[Any]:
        """The first of the attributes that an estimator has, of all estimators."""
        there = [[getattr(model, name) for name in names if hasattr(model, name)] for model in fitted]
        return np.array([values[0] if values else default for values in there])

    first: Any = fitted[0]
    labels = each("labels_")
    history = np.concatenate([_history(model, step) for step, model in enumerate(fitted)])
    return TradeOff(
        weights=each("fairness_weight_").astype(np.float64),
        labels=labels.astype(np.min_scalar_type(int(labels.max()))),
        objective=each("objective_", "inertia_").astype(np.float64),
        fairness_error=each("fairness_error_"),
        soft_error=each("soft_fairness_error_"),
        balance_min=each("balance_min_"),
        balance_mean=each("balance_mean_"),
        group_counts=each("group_counts_"),
        group_names=np.array(first.group_labels_, dtype=np.str_),
        attributes=first.group_attributes_,
        target=np.asarray(first.target_, dtype=np.float64),
        seconds=np.array([float(sum(model.seconds_)) for model in fitted]),
        iterations=each("n_iter_", default=0),
        converged=np.array([_converged(model) for model in fitted]),
        unfair_objective=np.array(unfair),
        history_objective=history[:, 0],
        history_weight=history[:, 1],
        history_step=history[:, 2].astype(np.int64),
    )


def _history(model: Any, step: int) -> NDArray[np.float64]:
    """Return the (U, 3) minimised objective, weight and step of each update."""
    rows: Any = getattr(model, "history_", ())
    weights: Any = getattr(model, "fairness_weight_", np.nan)
    if len(rows) and hasattr(rows[0], "objective"):
        rows, weights = [row.objective for row in rows], [row.weight for row in rows]
    values = np.asarray(rows, dtype=np.float64).ravel()
    return np.stack(np.broadcast_arrays(values, weights, float(step)), axis=1)


def _converged(model: Any) -> bool:
    """Return whether the estimator stopped before its maximum number of iterations; always true without iterations."""
    most = getattr(model, "max_iter", None)
    return bool(getattr(model, "converged_", most is None or getattr(model, "n_iter_", 0) < most))
