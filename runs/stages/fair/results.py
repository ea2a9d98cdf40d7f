"""One fair clustering along weights: the results at each weight, and the file that stores them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import read_arrays
from clustering.foundation.errors import InputError
from fairness.metrics import absent_groups, cluster_balances, occupied, price_of_fairness
from fairness.trade_off import smallest_best
from runs.config.fair import METRICS, FairConfig
from runs.stages.points import ClusteringResult, check_labels

PATH = "path.npz"
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TradeOff:
    """Clusterings of N points into K clusters at W weights; J groups."""

    weights: Floats  # (W,) increasing; W = 1 and NaN for a method without a weight
    labels: NDArray[Any]  # (W, N) clusters
    objective: Floats  # (W,) objective of the labels; NaN for a method that does not report it
    fairness_error: Floats  # (W,) fairness error of the labels, summed over clusters
    balance_min: Floats  # (W,) minimum over clusters
    balance_mean: Floats  # (W,) mean over clusters
    group_counts: NDArray[np.int64]  # (W, J, K) points of each group in each cluster
    group_names: NDArray[np.str_]  # (J,) str
    attributes: NDArray[np.int64]  # (J,) index of the attribute to which a group belongs
    target: Floats  # (J,) target proportions
    seconds: Floats  # (W,) duration of the fit, divided among the weights of a path
    iterations: NDArray[np.int64]  # (W,) number of iterations
    converged: NDArray[np.bool_]  # (W,) bool
    unfair_objective: Floats  # () objective of the unfair method with the same seeds; NaN if there is none
    history_objective: Floats  # (U,) minimised objective after each of the U updates of all weights
    history_weight: Floats  # (U,) weight of each update, with intermediate weights; NaN for a method without a weight
    history_step: NDArray[np.int64]  # (U,) index of the weight for which the update was made

    @classmethod
    def of(cls, fitted: Sequence[Any], unfair: float, groups: Mapping[str, Any]) -> "TradeOff":
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

        for model in (model for model in fitted if not hasattr(model, "group_labels_")):
            labels = np.asarray(getattr(model, "labels_", ()))
            clusters = getattr(model, "n_clusters", math.inf)  # some methods find the number of clusters themselves
            if labels.ndim != 1 or not len(labels) or labels.min() < 0 or labels.max() >= clusters:
                kind = f"{type(model).__module__}:{type(model).__qualname__}"
                remedy = "must have labels_ 0..n_clusters-1 after fit; give a class whose fit sets them"
                raise InputError(f"method {kind} {remedy}")
            keep_fairness(model, labels, groups_of(groups, len(labels)))

        def each(*names: str, default: Any = np.nan) -> NDArray[Any]:
            """The first of the attributes that an estimator has, of all estimators."""
            there = [[getattr(model, name) for name in names if hasattr(model, name)] for model in fitted]
            return np.array([values[0] if values else default for values in there])

        def converged(model: Any) -> bool:
            """Whether it stopped before its maximum number of iterations; always true without iterations."""
            most = getattr(model, "max_iter", None)
            return bool(getattr(model, "converged_", most is None or getattr(model, "n_iter_", 0) < most))

        history = np.empty((0, 3))  # objective, weight and step of each update
        for step, model in enumerate(fitted):
            rows: Any = getattr(model, "history_", ())
            weights: Any = getattr(model, "fairness_weight_", np.nan)
            if len(rows) and hasattr(rows[0], "objective"):
                rows, weights = [row.objective for row in rows], [row.weight for row in rows]
            columns = np.broadcast_arrays(np.asarray(rows, dtype=np.float64).ravel(), weights, step)
            history = np.concatenate([history, np.stack(columns, axis=1)])
        first, found = fitted[0], each("labels_")
        return cls(
            weights=each("fairness_weight_").astype(np.float64),
            labels=found.astype(np.min_scalar_type(int(found.max()))),
            objective=each("objective_", "inertia_").astype(np.float64),
            fairness_error=each("fairness_error_"),
            balance_min=each("balance_min_"),
            balance_mean=each("balance_mean_"),
            group_counts=each("group_counts_"),
            group_names=np.array(first.group_labels_, dtype=np.str_),
            attributes=first.group_attributes_,
            target=np.asarray(first.target_, dtype=np.float64),
            seconds=np.array([float(sum(model.seconds_)) for model in fitted]),
            iterations=each("n_iter_", default=0),
            converged=np.array([converged(model) for model in fitted]),
            unfair_objective=np.array(unfair),
            history_objective=history[:, 0],
            history_weight=history[:, 1],
            history_step=history[:, 2].astype(np.int64),
        )

    @cached_property
    def error_of_all(self) -> Floats:
        """(W,) fairness error, NaN if a cluster is empty: the error is a sum over clusters, and an empty cluster would
        only reduce it."""
        return np.where(self.clusters == self.group_counts.shape[2], self.fairness_error, np.nan)

    @cached_property
    def fairest(self) -> int | None:
        """Index of the smallest weight with the least fairness error, see `fairness.trade_off.smallest_best`; None if
        clusters are empty at every weight."""
        return smallest_best(self.weights, self.error_of_all)

    @cached_property
    def chosen(self) -> int:
        """Index of the fairest weight; if clusters are empty at every weight, among those with the fewest."""
        if self.fairest is not None:
            return self.fairest
        most = self.clusters == self.clusters.max()
        return smallest_best(self.weights, np.where(most, self.fairness_error, np.nan)) or 0

    @cached_property
    def price(self) -> Floats:
        """(W,) ratio of the objective to that of the unfair method, see `fairness.metrics.price_of_fairness`."""
        unfair = float(self.unfair_objective)
        known = np.isfinite(self.objective) & math.isfinite(unfair)
        pairs = zip(self.objective, known, strict=True)
        return np.array([price_of_fairness(float(value), unfair) if there else np.nan for value, there in pairs])

    @property
    def clusters(self) -> NDArray[np.int64]:
        """(W,) number of clusters with points."""
        return np.asarray(occupied(self.group_counts).sum(axis=1))

    @property
    def absent(self) -> NDArray[np.int64]:
        """(W,) number of pairs of a group and a non-empty cluster without points of that group."""
        return np.asarray(absent_groups(self.group_counts).sum(axis=(1, 2)))

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """(J,) number of points of each group."""
        return np.asarray(self.group_counts[0].sum(axis=1))

    @property
    def data_balance(self) -> float:
        """Ratio of smallest to largest group over all points, an upper bound of the minimum balance of clusters."""
        return float(cluster_balances(self.group_sizes[:, None], self.attributes)[0])

    def metrics(self, step: int) -> dict[str, float]:
        """Return the metrics of one weight by their names in the record."""
        found = {name: float(getattr(self, attribute)[step]) for name, attribute in METRICS.items()}
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def best(self) -> dict[str, float]:
        """Return the metrics of the fairest weight; {} if there is none."""
        best = {} if self.fairest is None else self.metrics(self.fairest)
        return {f"best_{name}": value for name, value in best.items()}

    def save(self, path: Path) -> None:
        """Write the trade-off to a compressed .npz file."""
        arrays: dict[str, Any] = {own.name: getattr(self, own.name) for own in fields(self)}
        np.savez_compressed(path, **arrays)

    @classmethod
    def load(cls, path: Path) -> "TradeOff":
        """Read a file written by `save`. A damaged file raises the errors of zipfile, numpy or a dataclass."""
        known = read_arrays(path)
        found = cls(**{own.name: known[own.name] for own in fields(cls)})
        check_labels(found.labels)
        for step in range(len(found.labels)):
            found.metrics(step)  # reads every field, and so raises if one is damaged
        found.best()
        return found


@dataclass(frozen=True, eq=False)
class FairResult(ClusteringResult):
    """One config with its trade-off."""

    config: FairConfig
    kind: str  # kind of the objective, see `fairness.methods.kind_of`
    found: TradeOff  # the results at each weight
