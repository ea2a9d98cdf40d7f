"""Fairness of a clustering with hard labels: error, balance, violations of bounds, and the price of fairness.

Functions take labels (N,) of any type and `sensitive_features` as the estimators do. Only clusters that occur count; an
empty cluster has no proportions. The papers mix the minimum and the mean of the balance, and print the sum of the
fairness error over clusters, so compare errors only at equal K.

Functions of the arguments (y_true, y_pred) are for `fairlearn.metrics.MetricFrame`, which calls them on each group.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clustering.foundation.errors import InputError
from fairness.groups import Groups, groups_of

FLOOR = 1e-20
"""Lower bound of a share inside the logarithm, as in the public code: an absent group costs about 46 mu_j, not
infinity."""

Reduce = Literal["sum", "mean", "min", "max"] | None


class Fairness(NamedTuple):
    """Fairness values that every method reports.

    Attributes:
        error: sum over clusters (and attributes) of KL(U || P_k).
        balance_min: lowest balance of a cluster that is not empty.
        balance_mean: mean balance of these clusters.
        counts: (J, K) number of points of each group in each cluster, int64.
        empty: number of empty clusters.
        absent: (group, cluster) pairs of groups without a point in a cluster that is not empty.
    """

    error: float
    balance_min: float
    balance_mean: float
    counts: NDArray[np.int64]
    empty: int
    absent: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, counts: NDArray[np.int64], groups: Groups) -> "Fairness":
        """Fairness from the counts (J, K) of each group in each cluster."""
        nonempty = occupied(counts)
        balances = cluster_balances(counts, groups.attribute_of)[nonempty]
        rows, columns = np.nonzero(absent_groups(counts))
        names = groups.labels()
        return cls(
            float(cluster_errors(counts, groups)[nonempty].sum()),
            float(balances.min()),
            float(balances.mean()),
            counts,
            int((~nonempty).sum()),
            tuple((names[j], int(k)) for j, k in zip(rows, columns, strict=True)),
        )


def occupied(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(..., K) whether clusters have points, from counts (..., J, K)."""
    nonempty: NDArray[np.bool_] = counts.sum(axis=-2) > 0
    return nonempty


def absent_groups(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(..., J, K) whether a group is absent from a cluster that is not empty, from counts (..., J, K)."""
    absent: NDArray[np.bool_] = (counts == 0) & occupied(counts)[..., None, :]
    return absent


def divergences(
    by_group: NDArray[Any], sizes: NDArray[Any], target: NDArray[np.float64], floor: float | None = FLOOR
) -> NDArray[np.float64]:
    """(..., J, K) terms u_j log(u_j / P_jk) of KL(U || P_k), in nats, for counts (..., J, K) in clusters of sizes
    (..., K). Shares P_jk below `floor` count as `floor`; without one, the term of an absent group is infinite."""
    shares = by_group / np.where(sizes > 0, sizes, 1)[..., None, :]
    if floor is not None:
        shares = np.maximum(shares, floor)
    with np.errstate(divide="ignore"):
        terms: NDArray[np.float64] = target[:, None] * np.log(target[:, None] / shares)
    return terms


def cluster_errors(counts: NDArray[Any], groups: Groups, floor: float | None = FLOOR) -> NDArray[np.float64]:
    """(K,) KL(U || P_k) in nats, summed over attributes; infinite if a group is absent and there is no floor."""
    sizes = counts[groups.attribute_of == 0].sum(axis=0)
    errors: NDArray[np.float64] = divergences(counts, sizes, groups.target, floor).sum(axis=0)
    return errors


def cluster_balances(counts: NDArray[np.int64], attribute_of: NDArray[np.int64]) -> NDArray[np.float64]:
    """(K,) smallest over largest count of a group, for the attribute where this is lowest; 0 in an empty cluster.

    The attribute of each group is in `attribute_of` (J,).
    """
    balances = np.full(counts.shape[1], np.inf)
    for attribute in np.unique(attribute_of):
        members = counts[attribute_of == attribute]
        balances = np.minimum(balances, members.min(axis=0) / np.maximum(members.max(axis=0), 1))
    return balances


def fairness_error(
    labels: ArrayLike,
    sensitive_features: Any,
    *,
    target: Any = None,
    floor: float | None = FLOOR,
    reduce: Reduce = "sum",
) -> Any:
    """KL(U || P_k) over clusters, in nats (thesis section 3.4): 0 if every cluster has the target proportions.

    Args:
        labels: (N,).
        sensitive_features: see `fairness.groups.groups_of`.
        target: U; None uses the proportions of the data.
        floor: lower bound of a share inside the logarithm; with None an absent group makes the error infinite.
        reduce: "sum" as in the papers, "mean", "min" or "max" over clusters; None returns (K,) errors.
    """
    counts, groups, _ = counted(labels, sensitive_features, target)
    return _reduced(cluster_errors(counts, groups, floor), reduce)


def balance(labels: ArrayLike, sensitive_features: Any, *, reduce: Reduce = "min", relative: bool = False) -> Any:
    """Smallest over largest count of a group in a cluster (Chierichetti et al. 2017, thesis eq. 3.1), 0..1.

    Args:
        labels: (N,).
        sensitive_features: see `fairness.groups.groups_of`.
        reduce: "min" over clusters, as defined; "mean", as printed in Table 3.2 of the thesis; None returns (K,)
            balances.
        relative: whether to divide by the balance of the data, which is the upper bound of the minimum.
    """
    counts, groups, _ = counted(labels, sensitive_features)
    balances = cluster_balances(counts, groups.attribute_of)
    if relative:
        balances = balances / cluster_balances(counts.sum(axis=1, keepdims=True), groups.attribute_of)
    return _reduced(balances, reduce)


def largest_violation(counts: NDArray[np.int64], groups: Groups, delta: float) -> float:
    """Largest number of points by which a group violates its bounds in a cluster (Bera et al. 2019), 0 or more.

    The count of group j in cluster k, of counts (J, K), is bounded by mu_j (1 - delta) n_k and mu_j n_k / (1 - delta).
    """
    expected = groups.target[:, None] * counts[groups.attribute_of == 0].sum(axis=0)
    return max(0.0, float((counts - expected / (1 - delta)).max()), float((expected * (1 - delta) - counts).max()))


def price_of_fairness(objective: float, unfair: float) -> float:
    """The objective divided by that of the unfair method with the same seeds.

    1 means that fairness is free; a value below 1 means that the unfair method missed its optimum.
    """
    if unfair < 0 or objective < 0:
        raise InputError(f"objectives must be 0 or more, not {objective} and {unfair}")
    if unfair == 0:
        return 1.0 if objective == 0 else float("inf")
    return objective / unfair


def cluster_rate(cluster: Any) -> Callable[[Any, ArrayLike], float]:
    """Metric (y_true, y_pred) for MetricFrame: share of the points in this cluster."""

    def rate(y_true: Any, y_pred: ArrayLike) -> float:
        return float(np.mean(np.asarray(y_pred) == cluster))

    rate.__name__ = f"rate of cluster {cluster}"
    return rate


def mean_cost(y_true: Any, y_pred: ArrayLike, *, distances: ArrayLike) -> float:
    """Metric for MetricFrame, with `sample_params={"distances": …}`: mean distance of the points to their
    prototypes."""
    return float(np.mean(np.asarray(distances)))


def counted(
    labels: ArrayLike, sensitive_features: Any, target: Any = None
) -> tuple[NDArray[np.int64], Groups, NDArray[Any]]:
    """(J, K) number of points of each group in each cluster, the groups, and the K labels, sorted."""
    names, codes = np.unique(np.asarray(labels), return_inverse=True)
    if codes.size == 0:
        raise InputError("labels is empty")
    groups = groups_of(sensitive_features, codes.size, target=target)
    return groups.counts(codes.ravel(), len(names)), groups, names


def _reduced(values: NDArray[np.float64], reduce: Reduce) -> Any:
    if reduce is None:
        return values
    if reduce not in ("sum", "mean", "min", "max"):
        raise InputError(f"reduce must be sum, mean, min, max or None, not {reduce!r}")
    return float(getattr(values, reduce)())
