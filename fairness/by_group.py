"""Table of the groups in each cluster: counts, shares with confidence intervals, targets and deviations."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc
from scipy.stats import binomtest, chi2_contingency

from clustering.foundation.errors import InputError
from fairness.groups import Groups
from fairness.metrics import counted, divergences

ALL = "all"
"""Label of the rows that describe all points."""


@dataclass(frozen=True, eq=False)
class ByGroup:
    """J groups of A attributes in K clusters.

    Attributes:
        groups: the groups, with their target.
        clusters: K labels.
        counts: (J, K) number of points.
        confidence: confidence level of the intervals, above 0 and below 1.
    """

    groups: Groups
    clusters: tuple[Any, ...]
    counts: NDArray[np.int64]
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InputError(f"confidence must be above 0 and below 1, not {self.confidence}")

    @classmethod
    def of(cls, counts: NDArray[np.int64], groups: Groups) -> "ByGroup":
        """Table from the counts (J, K) of each group in clusters 0 to K - 1."""
        return cls(groups, tuple(range(counts.shape[1])), counts)

    def to_frame(self) -> pd.DataFrame:
        """J rows for each cluster, followed by J rows for all points as one cluster named "all".

        Columns: cluster; attribute, the name of the sensitive feature; group, its value; size, the number of points in
        the cluster; members, the number of these in the group; share, members / size, with the ends low and high of
        Wilson's interval, for a share in a sample of the cluster's size; target, the target share; deviation, share -
        target. Values of the whole cluster and attribute are repeated in each row: error, KL(target || shares) in nats,
        with the floor of `fairness.metrics`; balance, the smallest over the largest count of a group; p_value, of the
        chi-square test that the cluster is a sample from the target, and for "all" of the test that clusters and
        groups are independent. An empty cluster has NaN for everything but counts.

        If the target is the proportions of the data, which include the cluster, the p-value is larger than that of a
        test of the cluster against the rest. It is approximate if the expected count of a group is below five.
        """
        total = self.counts.sum(axis=1, keepdims=True)
        frame = self._frame(np.concatenate([self.counts, total], axis=1), (*self.clusters, ALL))
        filled = self.counts[:, self.counts.sum(axis=0) > 0]
        tests = [chi2_contingency(filled[self.groups.attribute_of == t], False) for t in self.groups.attribute_of]
        independence = [test.pvalue for test in tests]
        frame.loc[frame.index[-len(independence) :], "p_value"] = independence
        return frame

    def _frame(self, counts: NDArray[np.int64], clusters: tuple[Any, ...]) -> pd.DataFrame:
        groups, (J, K) = self.groups, counts.shape
        of_attribute = groups.attribute_of[:, None] == groups.attribute_of  # (J, J)
        sizes = counts[groups.attribute_of == 0].sum(axis=0)
        known = np.where(sizes > 0, sizes, np.nan)
        target = np.repeat(groups.target[:, None], K, axis=1)
        shares = counts / known
        low, high = np.vectorize(_interval, otypes=[float, float])(counts, sizes, self.confidence)
        members = [counts[own] for own in of_attribute]
        columns = {
            "size": np.repeat(sizes[None], J, axis=0),
            "members": counts,
            "share": shares,
            "low": low,
            "high": high,
            "target": target,
            "deviation": shares - target,
            "error": of_attribute @ divergences(counts, known, groups.target) + 0 * known,
            "balance": np.stack([own.min(axis=0) / np.maximum(own.max(axis=0), 1) for own in members]) + 0 * known,
            "p_value": _goodness_of_fit(counts, target * known, of_attribute),
        }
        return pd.DataFrame(
            {
                "cluster": pd.Series(clusters, dtype=object).repeat(J).to_list(),
                "attribute": [groups.attributes[t] for t in groups.attribute_of] * K,
                "group": list(groups.names) * K,
                **{name: values.T.ravel() for name, values in columns.items()},
            }
        )


def by_group(labels: ArrayLike, sensitive_features: Any, *, target: Any = None, confidence: float = 0.95) -> ByGroup:
    """Tabulate the groups in each cluster.

    Args:
        labels: (N,) clusters of any type.
        sensitive_features: see `fairness.groups.groups_of`.
        target: target shares in each cluster; None uses those of the data.
        confidence: confidence level of the intervals of shares.
    """
    counts, groups, names = counted(labels, sensitive_features, target)
    return ByGroup(groups, tuple(names.tolist()), counts, confidence)


def _interval(members: int, size: int, confidence: float) -> tuple[float, float]:
    """Ends of the Wilson interval (1927), which is valid for shares near 0 or 1 and for small samples; NaN if the size
    is 0."""
    if size == 0:
        return np.nan, np.nan
    ends = binomtest(members, size).proportion_ci(confidence, method="wilson")
    return min(ends.low, members / size), max(ends.high, members / size)  # exact for shares of 0 and 1


def _goodness_of_fit(
    counts: NDArray[np.int64], expected: NDArray[np.float64], of_attribute: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(J, K) p-values of Pearson's test of the counts of each group's attribute; 1 if the attribute has one group."""
    statistic = of_attribute @ ((counts - expected) ** 2 / expected)
    freedom = of_attribute.sum(axis=1, keepdims=True) - 1
    return np.where(freedom == 0, 1 + 0 * statistic, chdtrc(np.maximum(freedom, 1), statistic))
