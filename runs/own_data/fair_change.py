"""The effect of fairness on the clusters of a user's own table: group shares before and after, and the cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import called_alike, profiles
from fairness.by_group import ByGroup
from fairness.datasets.table import Attribute
from fairness.groups import groups_of
from fairness.objectives import distances_to_means
from runs.own_data.fair_words import farther
from runs.own_data.group_words import described, in_a_line, kinds

SHOWN = 8  # maximum number of groups per attribute with bars: those farthest from their target share
NOTICED = 0.01  # differences between shares below this are ignored
CHANCE = 0.05  # p-value above which a difference is not significant


@dataclass(frozen=True, eq=False)
class FairFound:
    """A table clustered at several fairness weights, and the selected weight.

    Attributes:
        contents: the table.
        attributes: the sensitive attributes.
        points: (N, D) the rows as clustered, such as in standard deviations.
        weights: (W,) ascending, the first 0 (no fairness); (0, NaN) for a method without a weight, (NaN,) for a method
            that does not use the groups.
        labels: (W, N) clusters 0..K-1 at each weight.
        chosen: index of the selected weight.
        clusters: number of clusters K.
        method: displayed name of the method.
        command: command line of this result.
        commands: command lines for each weight alone.
        more: command line for a weight larger than all others.
        output: path of the rows with their clusters.
        aware: whether the method uses the groups.
        settled: whether the method converged at each weight; empty: at all.
        target: target share of each (attribute, group) in the clusters; None: the share in the whole table.
        facts: technical details by name.
    """

    contents: Contents
    attributes: Sequence[Attribute]
    points: NDArray[np.floating]
    weights: Sequence[float]
    labels: NDArray[np.integer]
    chosen: int
    clusters: int
    method: str
    command: str
    commands: Sequence[str]
    more: str
    output: str
    aware: bool = True
    settled: Sequence[bool] = ()
    target: Mapping[tuple[str, str], float] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    """A group's share of a cluster: before (without fairness), after (with fairness), and wanted (the target)."""

    attribute: str
    group: str
    cluster: int
    before: float
    after: float
    wanted: float
    likely: tuple[float, float]
    chance: bool

    @property
    def left(self) -> float:
        """Distance from the target share, with fairness."""
        return abs(self.after - self.wanted)

    @property
    def farthest(self) -> float:
        """The larger distance from the target share, before or after."""
        return max(0.0, abs(self.before - self.wanted), abs(self.after - self.wanted))  # NaN (empty cluster) counts 0


@dataclass(frozen=True)
class Cluster:
    """A cluster with fairness, matched to the most similar cluster without.

    Attributes:
        number: number of the cluster.
        before, after: number of rows without and with fairness.
        line: description of the cluster.
        shares: share of each group, by attribute.
        shown: the shares with bars.
    """

    number: int
    before: int
    after: int
    line: str
    shares: Mapping[str, tuple[Share, ...]]
    shown: Mapping[str, tuple[Share, ...]]


@dataclass(frozen=True)
class Step:
    """The effect and the cost of one weight.

    Attributes:
        weight: the weight.
        farthest: largest distance of a group's share in a cluster from its target.
        lacking: number of groups missing from a cluster.
        lost: number of empty clusters.
        distance: mean distance of the rows to their cluster's mean, relative to that without fairness.
        moved: number of rows in another cluster than without fairness.
        settled: whether the method converged.
        command: command line for this weight.
    """

    weight: float
    farthest: float
    lacking: int
    lost: int
    distance: float
    moved: int
    settled: bool
    command: str

    def whole_as(self, other: "Step") -> bool:
        """Return whether this step has at most as many empty clusters and missing groups as another step."""
        return self.lost <= other.lost and self.lacking <= other.lacking


class Change:
    """The effect of fairness on a table.

    Args:
        found: the clusterings of the table.
    """

    def __init__(self, found: FairFound) -> None:
        self._found = found
        names = [attribute.column for attribute in found.attributes]
        self._groups = groups_of(
            {name: own.values for name, own in zip(names, found.attributes, strict=True)}, self.rows
        )
        if found.target is not None:
            self._groups = replace(self._groups, target=np.array([found.target[key] for key in self._keys()]))
        self.after = found.labels[found.chosen].astype(np.int64)
        self.before = called_alike(self.after, found.labels[0].astype(np.int64), found.clusters)
        self.reports = self._report(self.before), self._report(self.after)
        self._distances = [distances_to_means(found.points, labels) for labels in found.labels]

    @property
    def rows(self) -> int:
        return int(self._found.labels.shape[1])

    @cached_property
    def whole(self) -> dict[str, dict[str, float]]:
        """Share of each group in the whole table, by attribute, in the order of the groups."""
        return self._by_attribute(self._groups.sizes / self.rows)

    @property
    def asked(self) -> dict[str, dict[str, float]]:
        """The target shares in the same form; empty if they are those of the whole table."""
        return {} if self._found.target is None else self._by_attribute(self._groups.target)

    @cached_property
    def shares(self) -> list[Share]:
        """The shares of each group in each cluster."""
        before, after = self.reports
        place = {key: j for j, key in enumerate(self._keys())}
        return [
            Share(
                own.column,
                group,
                cluster,
                float(before.shares[j, cluster]),
                float(after.shares[j, cluster]),
                float(self._groups.target[j]),
                (float(after.low[j, cluster]), float(after.high[j, cluster])),
                bool(after.p_values[self._groups.attribute_of[j], cluster] >= CHANCE),
            )
            for own in self._found.attributes
            for group in own.names
            for j in [place[own.column, group]]
            for cluster in range(self._found.clusters)
        ]

    def worst(self, *, after: bool) -> Share:
        """Return the share farthest from its target; ties go to the rarer group."""

        def distance(share: Share) -> tuple[float, float]:
            away = abs((share.after if after else share.before) - share.wanted)
            return (-1.0 if np.isnan(away) else round(away, 9), -share.wanted)

        return max(self.shares, key=distance)

    def lacking(self, *, after: bool) -> list[tuple[str, str, int]]:
        """Return the groups missing from a cluster, as (attribute, group, cluster)."""
        keys, report = self._keys(), self.reports[after]
        return [(*keys[j], cluster) for j, cluster in sorted(report.absent(), key=lambda pair: pair[1])]

    def too_rare(self) -> dict[tuple[str, str], int]:
        """Return the number of rows of each group that a cluster lacks since the group has fewer rows than clusters."""
        sizes = dict(zip(self._keys(), self._groups.sizes.tolist(), strict=True))
        clusters = int((self.reports[1].sizes > 0).sum())
        lacking = [(attribute, group) for attribute, group, _ in self.lacking(after=True)]
        return {key: sizes[key] for key in dict.fromkeys(lacking) if sizes[key] < clusters}

    @property
    def reachable(self) -> bool:
        """Whether all clusters can reach the target shares: these must be the shares of the whole table."""
        return bool(np.abs(self._groups.target - self._groups.sizes / self.rows).max() <= NOTICED)

    def clusters(self) -> list[Cluster]:
        """Return the non-empty clusters with fairness."""
        contents = self._found.contents
        features, names = kinds(contents), [feature.name for feature in contents.features]
        lines = {
            profile.cluster: in_a_line(described(profile, features))
            for profile in profiles(contents.values, self.after, names, column_of=contents.column_of)
        }
        shown = self._shown()
        clusters = []
        for cluster in np.flatnonzero(self.reports[1].sizes).tolist():
            own = {
                name: tuple(share for share in self.shares if (share.attribute, share.cluster) == (name, cluster))
                for name in self.whole
            }
            bars = {name: tuple(s for s in shares if s.group in shown[name]) for name, shares in own.items()}
            before, after = (int(report.sizes[cluster]) for report in self.reports)
            clusters.append(Cluster(cluster, before, after, lines[cluster], own, bars))
        return clusters

    def steps(self) -> list[Step]:
        """Return the effect and cost of each weight."""
        found = self._found
        steps = []
        for i, weight in enumerate(found.weights):
            report = self._report(found.labels[i])
            steps.append(
                Step(
                    float(weight),
                    float(np.nanmax(np.abs(report.deviation))),
                    len(report.absent()),
                    int((report.sizes == 0).sum()),
                    _ratio(self._distances[i], self._distances[0]),
                    self._moved(i),
                    bool(found.settled[i]) if len(found.settled) else True,
                    found.commands[i],
                )
            )
        return steps

    def less(self, steps: Sequence[Step]) -> Step | None:
        """Return the largest positive weight with noticeably less fairness than the selected one, or None."""
        chosen = steps[self._found.chosen]
        fewer = [step for step in steps[: self._found.chosen] if step.farthest > chosen.farthest + NOTICED]
        return fewer[-1] if fewer and fewer[-1].weight > 0 else None

    def cheaper(self, steps: Sequence[Step]) -> Step | None:
        """Return the fairest smaller weight that is noticeably cheaper and not worse in the farthest group, or None.

        It can exist because the selected weight minimises the error over all groups, not that of the farthest.
        """
        chosen = steps[self._found.chosen]
        as_near = [
            step
            for step in steps[1 : self._found.chosen]
            if step.whole_as(chosen) and step.farthest <= chosen.farthest and step.distance < chosen.distance - NOTICED
        ]
        return min(as_near, key=lambda step: (step.farthest, step.distance), default=None)

    def more(self, steps: Sequence[Step]) -> str | None:
        """Return the command line for noticeably more fairness.

        Returns None if there is no room, or if all larger weights that were tried lose a cluster or a group of a
        cluster.
        """
        chosen = steps[self._found.chosen]
        if chosen.farthest <= NOTICED:
            return None
        larger = steps[self._found.chosen + 1 :]
        better = [step for step in larger if step.whole_as(chosen) and step.farthest < chosen.farthest - NOTICED]
        if better:
            return better[0].command
        return None if larger else self._found.more

    def distances(self) -> list[tuple[str, str, float, float, str]]:
        """Return a row for each group: attribute, group, mean distance to the cluster mean without and with fairness,
        and the change in words."""
        before, after = self._distances[0], self._distances[self._found.chosen]
        return [
            (
                own.column,
                group,
                float(before[at].mean()),
                float(after[at].mean()),
                farther(_ratio(after[at], before[at])),
            )
            for own in self._found.attributes
            for group in own.names
            for at in [own.values == group]
        ]

    def _moved(self, place: int) -> int:
        first, labels = (self._found.labels[i].astype(np.int64) for i in (0, place))
        return int((called_alike(labels, first, self._found.clusters) != labels).sum())

    def _report(self, labels: NDArray[np.integer]) -> ByGroup:
        return ByGroup.of(self._groups.counts(labels.astype(np.int64), self._found.clusters), self._groups)

    def _by_attribute(self, values: NDArray[np.float64]) -> dict[str, dict[str, float]]:
        shares = dict(zip(self._keys(), values.tolist(), strict=True))
        return {own.column: {group: shares[own.column, group] for group in own.names} for own in self._found.attributes}

    def _keys(self) -> list[tuple[str, str]]:
        """Return (attribute, group) in the order of the groups."""
        groups = self._groups
        return [(groups.attributes[t], str(name)) for t, name in zip(groups.attribute_of, groups.names, strict=True)]

    def _shown(self) -> dict[str, set[str]]:
        """Return the groups with bars, by attribute."""
        far: dict[str, dict[str, float]] = {name: {} for name in self.whole}
        for share in self.shares:
            known = far[share.attribute]
            known[share.group] = max(known.get(share.group, 0.0), share.farthest)
        return {name: set(sorted(known, key=known.__getitem__, reverse=True)[:SHOWN]) for name, known in far.items()}


def _ratio(distances: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Return the ratio of the means; 1 if both are 0."""
    mine, theirs = float(distances.mean()), float(others.mean())
    return 1.0 if mine == theirs else mine / theirs if theirs else float("inf")
