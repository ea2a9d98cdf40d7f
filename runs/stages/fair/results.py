"""One fair clustering along weights: what was found at each, and the file that keeps it."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import read_arrays
from fairness.metrics import absent_groups, cluster_balances, occupied, price_of_fairness
from fairness.trade_off import smallest_best
from runs.config.fair import FairConfig
from runs.stages.points import ClusteringResult

if TYPE_CHECKING:
    from runs.record.tracking import Tracker

PATH = "path.npz"
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TradeOff:
    """Clusterings of N points into K clusters at W weights; J groups.

    Attributes:
        weights: (W,) rising; NaN of a method without a weight, for which W is 1.
        labels: (W, N) clusters.
        objective: (W,) of the labels, NaN of a method that does not tell.
        fairness_error: (W,) of the labels, summed over clusters. soft_error: (W,) of the assignments, else NaN.
        balance_min: (W,) least of a cluster. balance_mean: (W,) mean over clusters.
        group_counts: (W, J, K) points of each group in each cluster.
        group_names: (J,) text. attributes: (J,) number of the attribute that a group is of. target: (J,) shares.
        seconds: (W,) of the fit, shared among the weights of a path. iterations: (W,). converged: (W,).
        unfair_objective: () of the unfair method from the same seeds, NaN where there is none.
        history_objective: (U,) what was lowered, after each of the U updates of all weights.
        history_weight: (U,) weight at that update: those that only lead to a weight are among them; else NaN.
        history_step: (U,) which of the W weights the update was made for.
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
    def fairest(self) -> int | None:
        """The smallest weight that reaches the least fairness error, see `fairness.trade_off.smallest_best`; None where
        clusters are lost at every weight."""
        return smallest_best(self.weights, self.error_of_all)

    @cached_property
    def chosen(self) -> int:
        """The fairest weight; where clusters are lost at every weight, of those at which the fewest are."""
        if self.fairest is not None:
            return self.fairest
        most = self.clusters == self.clusters.max()
        return smallest_best(self.weights, np.where(most, self.fairness_error, np.nan)) or 0

    @cached_property
    def error_of_all(self) -> Floats:
        """(W,) fairness error where no cluster is lost, else NaN: it is a sum over clusters, and one that has no points
        would only make it smaller."""
        return np.where(self.clusters == self.group_counts.shape[2], self.fairness_error, np.nan)

    @cached_property
    def price(self) -> Floats:
        """(W,) objective over that of the unfair method, see `fairness.metrics.price_of_fairness`."""
        unfair = float(self.unfair_objective)
        known = np.isfinite(self.objective) & math.isfinite(unfair)
        pairs = zip(self.objective, known, strict=True)
        return np.array([price_of_fairness(float(value), unfair) if there else np.nan for value, there in pairs])

    @property
    def clusters(self) -> NDArray[np.int64]:
        """(W,) clusters that have points."""
        found: NDArray[np.int64] = occupied(self.group_counts).sum(axis=1)
        return found

    @property
    def absent(self) -> NDArray[np.int64]:
        """(W,) pairs of a group and a cluster with points, none of them of that group."""
        found: NDArray[np.int64] = absent_groups(self.group_counts).sum(axis=(1, 2))
        return found

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """(J,) points of each group."""
        found: NDArray[np.int64] = self.group_counts[0].sum(axis=1)
        return found

    @property
    def data_balance(self) -> float:
        """Least over largest group of all points, which no least balance of clusters exceeds."""
        return float(cluster_balances(self.group_sizes[:, None], self.attributes)[0])

    def metrics(self, step: int) -> dict[str, float]:
        """What the record says of one weight."""
        values = {
            "fairness_weight": self.weights,
            "objective": self.objective,
            "price_of_fairness": self.price,
            "fairness_error": self.fairness_error,
            "soft_fairness_error": self.soft_error,
            "balance": self.balance_min,
            "balance_mean": self.balance_mean,
            "clusters_found": self.clusters,
            "absent_groups": self.absent,
            "converged": self.converged,
            "iterations": self.iterations,
            "seconds_fit": self.seconds,
        }
        found = {name: float(of[step]) for name, of in values.items()}
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def best(self) -> dict[str, float]:
        """What the record says of the fairest weight; nothing where there is none."""
        if self.fairest is None:
            return {}
        return {f"best_{name}": value for name, value in self.metrics(self.fairest).items()}

    def save(self, path: Path) -> None:
        """Write it to a compressed .npz file."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        np.savez_compressed(path, **arrays)

    @classmethod
    def load(cls, path: Path) -> "TradeOff":
        """Read what `save` wrote. A file that is damaged raises whatever zipfile or numpy make of it."""
        known = read_arrays(path)
        missing = [name for name in cls.__dataclass_fields__ if name not in known]
        if missing:
            raise ValueError(f"without {missing[0]}")
        found = cls(**{name: known[name] for name in cls.__dataclass_fields__})
        if found.labels.ndim != 2 or found.labels.dtype.kind not in "iu":
            raise ValueError("labels that are none")
        for step in range(len(found.labels)):
            found.metrics(step)  # which asks every part of it
        found.best()
        return found


def recorded_trade_off(tracker: "Tracker", run_id: str, artifacts: str = "") -> TradeOff:
    """The trade-off of a run, from the record.

    Args:
        artifacts: URI of its files, where it is known: those of this machine are read in their place.

    Raises:
        ValueError: it is gone or damaged.
    """
    return tracker.read(run_id, PATH, TradeOff.load, artifacts)


@dataclass(frozen=True, eq=False)
class FairResult(ClusteringResult[FairConfig]):
    """One config with its trade-off.

    Attributes:
        kind: what the objective is, see `fairness.methods.kind_of`.
        found: at each weight.
    """

    kind: str
    found: TradeOff
