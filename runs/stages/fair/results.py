"""One fair clustering along weights: the results at each weight, and the file that stores them."""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import read_arrays
from fairness.metrics import absent_groups, cluster_balances, occupied, price_of_fairness
from fairness.trade_off import smallest_best
from runs.config.fair import METRICS, FairConfig
from runs.stages.points import ClusteringResult, check_labels

PATH = "path.npz"
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TradeOff:
    """Clusterings of N points into K clusters at W weights; J groups.

    Attributes:
        weights: (W,) increasing; W = 1 and NaN for a method without a weight.
        labels: (W, N) clusters.
        objective: (W,) objective of the labels; NaN for a method that does not report it.
        fairness_error: (W,) fairness error of the labels, summed over clusters.
        soft_error: (W,) fairness error of the soft assignments; NaN for a method without.
        balance_min: (W,) minimum over clusters.
        balance_mean: (W,) mean over clusters.
        group_counts: (W, J, K) points of each group in each cluster.
        group_names: (J,) str.
        attributes: (J,) index of the attribute to which a group belongs.
        target: (J,) target proportions.
        seconds: (W,) duration of the fit, divided among the weights of a path.
        iterations: (W,) number of iterations.
        converged: (W,) bool.
        unfair_objective: () objective of the unfair method with the same seeds; NaN if there is none.
        history_objective: (U,) minimised objective after each of the U updates of all weights.
        history_weight: (U,) weight of each update, with intermediate weights; NaN for a method without a weight.
        history_step: (U,) index of the weight for which the update was made.
    """

    weights: Floats
    labels: NDArray[Any]
    objective: Floats
    fairness_error: Floats
    soft_error: Floats
    balance_min: Floats
    balance_mean: Floats
    group_counts: NDArray[np.int64]
    group_names: NDArray[np.str_]
    attributes: NDArray[np.int64]
    target: Floats
    seconds: Floats
    iterations: NDArray[np.int64]
    converged: NDArray[np.bool_]
    unfair_objective: Floats
    history_objective: Floats
    history_weight: Floats
    history_step: NDArray[np.int64]

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
    """One config with its trade-off.

    Attributes:
        kind: kind of the objective, see `fairness.methods.kind_of`.
        found: the results at each weight.
    """

    config: FairConfig
    kind: str
    found: TradeOff
