"""The page about the fairness of the clusters of a user's own table: the groups in each cluster, before and after, and
the cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.evaluation.profiles import profiles, relabelled_like
from fairness.by_group import ALL, ByGroup
from fairness.groups import Groups
from fairness.objectives import distances_to_means
from runs.own_data.page import TablePage
from runs.own_data.plain_words import between, described, farther, in_a_line, kinds, number, of_hundred, weight_name

SHOWN = 8  # maximum number of groups per attribute with bars: those farthest from their target share
NOTICED = 0.01  # differences between shares below this are ignored
CHANCE = 0.05  # p-value above which a difference is not significant
MORE = 10.0  # factor of the largest weight, for the suggestion of a larger weight


@dataclass(frozen=True, eq=False, kw_only=True)
class FairnessPage(TablePage):
    """The page about a table of N rows, clustered at W fairness weights.

    Attributes:
        groups: the J groups of the sensitive columns, with their target shares in the clusters.
        targeted: whether the user gave the target; otherwise it is the share in the whole table.
        points: (N, D) the rows as clustered, such as in standard deviations.
        weights: (W,) ascending, the first 0 (no fairness); (0, NaN) for a method without a weight, (NaN,) for a method
            that does not use the groups.
        labels: (W, N) clusters 0..K-1 at each weight.
        chosen: index of the selected weight.
        command_at: the command line for one weight.
        aware: whether the method uses the groups.
        settled: (W,) whether the method converged at each weight; None: it did.
    """

    template: ClassVar[str] = "fairness_page.html"

    groups: Groups
    targeted: bool = False
    points: NDArray[np.floating]
    weights: Sequence[float]
    labels: NDArray[np.integer]
    chosen: int
    command_at: Callable[[float], str]
    aware: bool = True
    settled: Sequence[bool] | None = None

    @cached_property
    def before(self) -> NDArray[np.int64]:
        """(N,) clusters without fairness, each with the number of the most similar cluster with fairness."""
        return relabelled_like(self._labels(self.chosen), self._labels(0), self.clusters)

    @cached_property
    def all_shares(self) -> pd.DataFrame:
        """One row for each group in each cluster, and in all rows: the columns of `fairness.by_group.Row`, with
        fairness; the same with the prefix `before_`, without fairness; and

        total: number of rows of the group.
        away, before_away: distance of the share from the target, with and without fairness.
        shown: whether the group has bars.
        """
        before, after = (self._by_group(labels) for labels in (self.before, self._labels(self.chosen)))
        farthest = np.nan_to_num(np.fmax(np.abs(before.deviation), np.abs(after.deviation))).max(axis=1)
        shown = pd.Series(-farthest).groupby(self.groups.attribute_of).rank(method="first").to_numpy() <= SHOWN
        group = np.tile(np.arange(len(shown)), self.clusters + 1)
        shares = after.to_frame().join(before.to_frame().add_prefix("before_"))
        shares = shares.assign(
            total=self.groups.sizes[group],
            away=shares["deviation"].abs(),
            before_away=shares["before_deviation"].abs(),
            shown=shown[group],
        )
        return shares.iloc[np.argsort(group, kind="stable")]

    @property
    def shares(self) -> pd.DataFrame:
        """The rows of `all_shares` for clusters, by attribute, group and cluster."""
        return self.all_shares[self.all_shares["cluster"] != ALL]

    @cached_property
    def steps(self) -> pd.DataFrame:
        """The effect and the cost of each weight.

        weight: the weight.
        farthest: largest distance of a group's share in a cluster from its target.
        lacking: number of groups missing from a cluster.
        lost: number of empty clusters.
        distance: mean distance of the rows to their cluster's mean, relative to that without fairness.
        moved: number of rows in another cluster than without fairness.
        settled: whether the method converged.
        """
        labels = [self._labels(place) for place in range(len(self.weights))]
        reports = [self._by_group(own) for own in labels]
        return pd.DataFrame(
            {
                "weight": self.weights,
                "farthest": [float(np.nanmax(np.abs(report.deviation))) for report in reports],
                "lacking": [len(report.absent()) for report in reports],
                "lost": [int((report.sizes == 0).sum()) for report in reports],
                "distance": [_ratio(own.mean(), self._distances[0].mean()) for own in self._distances],
                "moved": [int((relabelled_like(own, labels[0], self.clusters) != own).sum()) for own in labels],
                "settled": True if self.settled is None else list(self.settled),
            }
        )

    def content(self) -> dict[str, Any]:
        shares, steps = self.shares, self.steps
        overall = self.all_shares[self.all_shares["cluster"] == ALL]
        clusters = self._clusters()
        lacking = _absent(shares, "")
        left = _worst(shares, "")
        worst = _worst(shares, "before_")
        return {
            **super().content(),
            "rows": self.labels.shape[1],
            "whole": {name: _rows(own) for name, own in overall.groupby("attribute", sort=False)},
            "clusters": clusters,
            "lost": self.clusters - len(clusters),
            "worst": worst,
            "left": left,
            "lacked": _rows(_absent(shares, "before_")),
            "lacking": _rows(lacking),
            "too_rare": _rows(lacking[lacking["total"] < len(clusters)].drop_duplicates(["attribute", "group"])),
            "reachable": bool((overall["away"] <= NOTICED).all()),
            "steps": _rows(steps),
            "chosen": _rows(steps)[self.chosen],
            "already": worst.before_away <= NOTICED,
            "level": left.away <= NOTICED,
            **self._other_weights(),
            "weighted": not np.isnan(self.weights[-1]),
            "distances": self._distance_of_groups(),
            "both": [name for name in self.groups.attributes if name in self.contents.columns],
            "bars": SHOWN,
            "chance": CHANCE,
            "of_hundred": of_hundred,
            "between": between,
            "farther": farther,
            "weight_name": weight_name,
            "number": number,
        }

    def _clusters(self) -> list[dict[str, Any]]:
        """Return the non-empty clusters: number, rows before and after, description, shares of the groups."""
        features, names = kinds(self.contents), [feature.name for feature in self.contents.features]
        described_clusters = profiles(
            self.contents.values, self._labels(self.chosen), names, column_of=self.contents.column_of
        )
        lines = {profile.cluster: in_a_line(described(profile, features)) for profile in described_clusters}
        return [
            {
                "number": cluster,
                "before": int(own["before_size"].iloc[0]),
                "after": int(own["size"].iloc[0]),
                "line": lines[cluster],
                "shares": _rows(own),
            }
            for cluster in sorted(lines)
            for own in [self.shares[self.shares["cluster"] == cluster]]
        ]

    def _other_weights(self) -> dict[str, str | None]:
        """Return command lines for other weights; None if there is none to suggest.

        less: the largest positive weight with noticeably less fairness.
        cheaper: the fairest smaller weight that is noticeably cheaper and not worse in the farthest group. It can exist
            because the selected weight minimises the error over all groups, not that of the farthest.
        more: noticeably more fairness; None also if all larger weights that were tried lose a cluster or a group of a
            cluster.
        """
        steps, chosen = self.steps, self.steps.iloc[self.chosen]
        smaller, larger = steps.index < self.chosen, steps.index > self.chosen
        whole = (steps["lost"] <= chosen["lost"]) & (steps["lacking"] <= chosen["lacking"])
        less = smaller & (steps["farthest"] > chosen["farthest"] + NOTICED)
        as_near = smaller & (steps.index > 0) & whole & (steps["farthest"] <= chosen["farthest"])
        cheaper = as_near & (steps["distance"] < chosen["distance"] - NOTICED)
        more = larger & whole & (steps["farthest"] < chosen["farthest"] - NOTICED)
        advised = {
            "less": [weight for weight in steps["weight"][less].tail(1) if weight > 0],
            "cheaper": steps[cheaper].sort_values(["farthest", "distance"], kind="stable")["weight"].tolist(),
            "more": steps["weight"][more].tolist(),
        }
        if chosen["farthest"] > NOTICED and not larger.any():
            advised["more"] = [MORE * self.weights[-1]]
        return {name: self.command_at(weights[0]) if weights else None for name, weights in advised.items()}

    def _distance_of_groups(self) -> list[tuple[str, str, float, float, str]]:
        """Return a row for each group: attribute, group, mean distance to the cluster mean without and with fairness,
        and the change in words."""
        groups = self.groups
        before, after = (
            np.bincount(groups.cells, self._distances[place]) @ groups.membership / groups.sizes
            for place in (0, self.chosen)
        )
        return [
            (groups.attributes[t], name, *means, farther(_ratio(means[1], means[0])))
            for t, name, *means in zip(groups.attribute_of, groups.names, before, after, strict=True)
        ]

    @cached_property
    def _distances(self) -> list[NDArray[np.float64]]:
        """W times (N,) distance of each row to the mean of its cluster."""
        return [distances_to_means(self.points, labels) for labels in self.labels]

    def _labels(self, place: int) -> NDArray[np.int64]:
        return np.asarray(self.labels[place], dtype=np.int64)

    def _by_group(self, labels: NDArray[np.int64]) -> ByGroup:
        return ByGroup.of(self.groups.counts(labels, self.clusters), self.groups)


def _rows(frame: pd.DataFrame) -> list[Any]:
    return list(frame.itertuples(index=False))


def _absent(shares: pd.DataFrame, prefix: str) -> pd.DataFrame:
    """Return the groups missing from a cluster, by cluster."""
    return shares[(shares[f"{prefix}members"] == 0) & (shares[f"{prefix}size"] > 0)].sort_values(
        "cluster", kind="stable"
    )


def _worst(shares: pd.DataFrame, prefix: str) -> Any:
    """Return the share farthest from its target; ties go to the rarer group."""
    order = shares.assign(order=shares[f"{prefix}away"].round(9).fillna(-1.0))
    return _rows(order.sort_values(["order", "target"], ascending=[False, True], kind="stable"))[0]


def _ratio(mean: float, other: float) -> float:
    """Return the ratio of means; 1 if both are 0."""
    return 1.0 if mean == other else float(mean / other) if other else float("inf")
