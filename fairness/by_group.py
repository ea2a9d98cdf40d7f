"""Table of the groups in each cluster: counts, shares with confidence intervals, targets and deviations."""

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
"""Label of the rows that describe all points."""


class Row(NamedTuple):
    """One group in one cluster; values of the whole cluster are repeated in each of its rows.

    Attributes:
        cluster: label of the cluster, or "all".
        attribute: name of the sensitive feature.
        group: value of the feature.
        size: number of points in the cluster.
        members: number of these points in the group.
        share: members / size. low, high: confidence interval of the share.
        target: target share in the cluster. deviation: share - target.
        error: KL(target || shares) of the cluster and attribute, in nats, with the floor of `fairness.metrics`.
        balance: smallest over largest count of a group of the attribute.
        p_value: of the chi-square test that the cluster is a sample from the target; for "all", of the test that
            clusters and groups are independent.
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
    """J groups of A attributes in K clusters. An empty cluster has NaN for everything but counts.

    The interval is Wilson's, for a share in a sample of the cluster's size. The test compares a cluster with the target
    (goodness of fit). If the target is the proportions of the data, which include the cluster, its p-value is larger
    than that of a test of the cluster against the rest. The p-value is approximate if the expected count of a group in
    a cluster is below five.

    Attributes:
        clusters: K labels.
        groups: the groups, with their target.
        counts: (J, K) number of points.
        shares, low, high, deviation: (J, K).
        errors, balances, p_values: (A, K).
        confidence: confidence level of the intervals.
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
        """Table from the counts (J, K) of each group in each cluster.

        Args:
            counts: (J, K).
            groups: the groups.
            clusters: K labels; None uses 0 to K - 1.
            confidence: confidence level of the intervals, above 0 and below 1.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must be above 0 and below 1, not {confidence}")
        sizes = counts[groups.attribute_of == 0].sum(axis=0)
        filled = np.where(sizes > 0, 1.0, np.nan)
        shares = shares_of(counts, groups) * filled
        low, high = wilson(counts, sizes, confidence)
        terms = groups.target[:, None] * (np.log(groups.target[:, None]) - np.log(np.maximum(shares, FLOOR)))
        masks = [groups.attribute_of == attribute for attribute in range(len(groups.attributes))]
        return cls(
            tuple(range(counts.shape[1])) if clusters is None else clusters,
            groups,
            counts,
            shares,
            low,
            high,
            shares - groups.target[:, None],
            np.stack([terms[columns].sum(axis=0) for columns in masks]),
            np.stack(
                [counts[columns].min(axis=0) / np.maximum(counts[columns].max(axis=0), 1) * filled for columns in masks]
            ),
            np.stack([_goodness_of_fit(counts[columns], groups.target[columns]) for columns in masks]),
            confidence,
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(K,) number of points in each cluster."""
        sizes: NDArray[np.int64] = self.counts[self.groups.attribute_of == 0].sum(axis=0)
        return sizes

    def overall(self) -> "ByGroup":
        """All points as one cluster named "all"; its p-values are those of independence."""
        counts, attribute_of = self.counts, self.groups.attribute_of
        total = ByGroup.of(counts.sum(axis=1, keepdims=True), self.groups, clusters=(ALL,), confidence=self.confidence)
        p_values = [
            [_independence(counts[attribute_of == attribute])] for attribute in range(len(self.groups.attributes))
        ]
        return replace(total, p_values=np.array(p_values))

    def absent(self) -> list[tuple[int, int]]:
        """Index pairs (group, cluster) of groups without a point in a cluster that is not empty."""
        return [(int(j), int(k)) for j, k in np.argwhere((self.counts == 0) & (self.sizes > 0))]

    def rows(self) -> list[Row]:
        """J rows for each cluster, followed by J rows for all points."""
        return [*self._rows(), *self.overall()._rows()]

    def to_frame(self) -> "pd.DataFrame":
        """The rows as a pandas data frame."""
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
    """Tabulate the groups in each cluster.

    Args:
        labels: (N,) clusters of any type.
        sensitive_features: see `fairness.groups.groups_of`.
        target: target shares in each cluster; None uses those of the data.
        confidence: confidence level of the intervals of shares.
    """
    codes, names = as_labels(labels)
    if codes.size == 0:
        raise InputError("labels is empty")
    groups = groups_of(sensitive_features, len(codes), target=target)
    return ByGroup.of(groups.counts(codes, len(names)), groups, clusters=tuple(names.tolist()), confidence=confidence)


def wilson(
    counts: ArrayLike, sizes: ArrayLike, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the Wilson interval (1927) of a share, which is valid for shares near 0 or 1 and for small samples.

    Args:
        counts: number of successes.
        sizes: number of trials, broadcast with counts; the result is NaN if it is 0.
        confidence: confidence level.
    """
    successes, trials = np.broadcast_arrays(np.asarray(counts, dtype=np.float64), np.asarray(sizes, dtype=np.float64))
    known = np.where(trials > 0, trials, np.nan)
    square = float(ndtri(0.5 + 0.5 * confidence)) ** 2
    share = successes / known
    middle = (share + square / (2 * known)) / (1 + square / known)
    half = np.sqrt(square * (share * (1 - share) / known + square / (4 * known**2))) / (1 + square / known)
    low = np.where(successes == 0, np.where(trials > 0, 0.0, np.nan), middle - half)  # exact for shares of 0 and 1
    high = np.where(successes == trials, np.where(trials > 0, 1.0, np.nan), middle + half)
    return low, high


def _goodness_of_fit(counts: NDArray[np.int64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K,) p-values of Pearson's test of counts (J, K) against the target (J,)."""
    sizes = counts.sum(axis=0)
    expected = target[:, None] * sizes
    with np.errstate(invalid="ignore"):
        statistic = ((counts - expected) ** 2 / expected).sum(axis=0)
    if len(target) == 1:
        return np.where(sizes > 0, 1.0, np.nan)
    p_values: NDArray[np.float64] = chdtrc(len(target) - 1, statistic)
    return p_values


def _independence(counts: NDArray[np.int64]) -> float:
    """p-value of Pearson's test that the rows and columns of counts (J, K) are independent."""
    occupied_counts = counts[:, counts.sum(axis=0) > 0]
    freedom = (occupied_counts.shape[0] - 1) * (occupied_counts.shape[1] - 1)
    if freedom == 0:
        return 1.0
    expected = occupied_counts.sum(axis=1, keepdims=True) * occupied_counts.sum(axis=0) / occupied_counts.sum()
    return float(chdtrc(freedom, ((occupied_counts - expected) ** 2 / expected).sum()))
