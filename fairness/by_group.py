"""The groups in every cluster as a table: how many, their share with an interval, the target, and how far it is."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtri

from clustering.foundation.errors import InputError
from fairness.groups import Groups, as_labels, groups_of
from fairness.metrics import FLOOR, shares_of

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
"""Cluster of the rows about all points."""


class Row(NamedTuple):
    """One group in one cluster. What belongs to the cluster stands in each row of it.

    Attributes:
        cluster: its label, or "all".
        attribute: the sensitive feature.
        group: its value.
        size: points of the cluster.
        members: of them in the group. share: members / size. low, high: interval of the share.
        target: share that the cluster should have. deviation: share - target.
        error: KL(target || shares) of the cluster and attribute, in nats, with the floor of `fairness.metrics`.
        balance: least over largest count of a group of the attribute.
        p_value: of the chi-square test that the cluster is drawn from the target; of "all", that clusters and groups
            are independent.
    """

    cluster: Any
    attribute: str
    group: Any
    size: int
    members: int
    share: float
    low: float
    high: float
    target: float
    deviation: float
    error: float
    balance: float
    p_value: float


@dataclass(frozen=True, eq=False)
class ByGroup:
    """J groups of A attributes in K clusters. A cluster without points has NaN for all but counts.

    The interval is Wilson's, of a share in as many points drawn from wherever these came from. The test compares a
    cluster with the target (goodness of fit); where that is the data's own proportions, of which the cluster is a part,
    its p is larger than that of the cluster against the rest. Where a group is expected fewer than five times in a
    cluster, p is rough.

    Attributes:
        clusters: K labels.
        groups: the groups, with their target.
        counts: (J, K) points.
        shares, low, high, deviation: (J, K).
        errors, balances, p_values: (A, K).
        confidence: of the intervals.
    """

    clusters: tuple[Any, ...]
    groups: Groups
    counts: NDArray[np.int64]
    shares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    deviation: NDArray[np.float64]
    errors: NDArray[np.float64]
    balances: NDArray[np.float64]
    p_values: NDArray[np.float64]
    confidence: float = 0.95

    @classmethod
    def of(
        cls,
        counts: NDArray[np.int64],
        groups: Groups,
        *,
        clusters: tuple[Any, ...] | None = None,
        confidence: float = 0.95,
    ) -> "ByGroup":
        """Of the counts (J, K) of each group in each cluster.

        Args:
            clusters: K labels; None: 0 to K - 1.
            confidence: of the intervals, above 0 and below 1.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must be above 0 and below 1, not {confidence}")
        sizes = counts[groups.attribute_of == 0].sum(axis=0)
        filled = np.where(sizes > 0, 1.0, np.nan)
        shares = shares_of(counts, groups) * filled
        low, high = wilson(counts, sizes, confidence)
        terms = groups.target[:, None] * (np.log(groups.target[:, None]) - np.log(np.maximum(shares, FLOOR)))
        own = [groups.attribute_of == attribute for attribute in range(len(groups.attributes))]
        return cls(
            tuple(range(counts.shape[1])) if clusters is None else clusters,
            groups,
            counts,
            shares,
            low,
            high,
            shares - groups.target[:, None],
            np.stack([terms[at].sum(axis=0) for at in own]),
            np.stack([counts[at].min(axis=0) / np.maximum(counts[at].max(axis=0), 1) * filled for at in own]),
            np.stack([_goodness_of_fit(counts[at], groups.target[at]) for at in own]),
            confidence,
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(K,) points."""
        found: NDArray[np.int64] = self.counts[self.groups.attribute_of == 0].sum(axis=0)
        return found

    def overall(self) -> "ByGroup":
        """All points as one cluster, called "all"; its p-values are those of independence."""
        counts, own = self.counts, self.groups.attribute_of
        whole = ByGroup.of(counts.sum(axis=1, keepdims=True), self.groups, clusters=(ALL,), confidence=self.confidence)
        p_values = [[_independence(counts[own == attribute])] for attribute in range(len(self.groups.attributes))]
        return replace(whole, p_values=np.array(p_values))

    def absent(self) -> list[tuple[int, int]]:
        """(group, cluster) by their places, of groups without a point in a cluster that has some."""
        return [(int(j), int(k)) for j, k in np.argwhere((self.counts == 0) & (self.sizes > 0))]

    def rows(self) -> list[Row]:
        """Cluster by cluster, J rows each, and then J rows about all points."""
        return [*self._rows(), *self.overall()._rows()]

    def to_frame(self) -> "pd.DataFrame":
        """The rows as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=list(Row._fields))

    def _rows(self) -> list[Row]:
        groups = self.groups
        return [
            Row(
                cluster,
                groups.attributes[attribute],
                groups.names[j],
                int(self.sizes[k]),
                int(self.counts[j, k]),
                float(self.shares[j, k]),
                float(self.low[j, k]),
                float(self.high[j, k]),
                float(groups.target[j]),
                float(self.deviation[j, k]),
                float(self.errors[attribute, k]),
                float(self.balances[attribute, k]),
                float(self.p_values[attribute, k]),
            )
            for k, cluster in enumerate(self.clusters)
            for j, attribute in enumerate(groups.attribute_of)
        ]


def by_group(labels: ArrayLike, sensitive_features: Any, *, target: Any = None, confidence: float = 0.95) -> ByGroup:
    """The groups in every cluster.

    Args:
        labels: (N,) clusters of any kind.
        sensitive_features: see `fairness.groups.groups_of`.
        target: shares that clusters should have; None: those of the data.
        confidence: of the intervals of shares.
    """
    codes, names = as_labels(labels)
    if codes.size == 0:
        raise InputError("labels is empty")
    groups = groups_of(sensitive_features, len(codes), target=target)
    return ByGroup.of(groups.counts(codes, len(names)), groups, clusters=tuple(names.tolist()), confidence=confidence)


def wilson(
    counts: ArrayLike, sizes: ArrayLike, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of the interval of a share (Wilson 1927), which holds where shares are near 0 or 1 and sizes are small.

    Args:
        counts: of successes. sizes: of trials, of a shape that goes with it; NaN results where they are 0.
    """
    successes, trials = np.broadcast_arrays(np.asarray(counts, dtype=np.float64), np.asarray(sizes, dtype=np.float64))
    known = np.where(trials > 0, trials, np.nan)
    square = float(ndtri(0.5 + 0.5 * confidence)) ** 2
    share = successes / known
    middle = (share + square / (2 * known)) / (1 + square / known)
    half = np.sqrt(square * (share * (1 - share) / known + square / (4 * known**2))) / (1 + square / known)
    low = np.where(successes == 0, np.where(trials > 0, 0.0, np.nan), middle - half)  # exact at the ends
    high = np.where(successes == trials, np.where(trials > 0, 1.0, np.nan), middle + half)
    return low, high


def _goodness_of_fit(counts: NDArray[np.int64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K,) p of Pearson's test of counts (J, K) against the target (J,)."""
    sizes = counts.sum(axis=0)
    expected = target[:, None] * sizes
    with np.errstate(invalid="ignore"):
        statistic = ((counts - expected) ** 2 / expected).sum(axis=0)
    if len(target) == 1:
        return np.where(sizes > 0, 1.0, np.nan)
    found: NDArray[np.float64] = chdtrc(len(target) - 1, statistic)
    return found


def _independence(counts: NDArray[np.int64]) -> float:
    """p of Pearson's test that the rows and columns of counts (J, K) are independent."""
    used = counts[:, counts.sum(axis=0) > 0]
    freedom = (used.shape[0] - 1) * (used.shape[1] - 1)
    if freedom == 0:
        return 1.0
    expected = used.sum(axis=1, keepdims=True) * used.sum(axis=0) / used.sum()
    return float(chdtrc(freedom, ((used - expected) ** 2 / expected).sum()))
