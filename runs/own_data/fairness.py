"""The page about the fairness of the clusters of a user's own table: the groups in each cluster, and the cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import relabelled_like
from fairness.by_group import ALL, ByGroup
from fairness.groups import Groups
from fairness.objectives import distances_to_means
from runs.figures.style import COLOURS, new_figure, styled
from runs.own_data.page import columns_section, number, of_frame, percent, picture, weight_name
from runs.own_data.table_columns import named
from runs.report.sections import Item, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 24  # maximum number of shares in the picture: those farthest from their target
NOTICED = 0.01  # differences between shares below this are ignored
MORE = 10.0  # factor of the largest weight, for the suggestion of a larger weight
MEANING = (
    "Fair means here that every cluster has about the same share of each group. It does not mean that a decision based "
    "on the clusters is right, or allowed; and if a group was measured badly, fair clusters do not correct this."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class FairClusters:
    """A table of N rows, clustered at W fairness weights.

    Attributes:
        contents: the table.
        requested: requested number K of clusters.
        groups: the J groups of the sensitive columns, with their target shares in the clusters.
        points: (N, D) the rows as clustered, such as in standard deviations.
        weights: (W,) ascending, the first 0 (no fairness); (0, NaN) for a method without a weight, (NaN,) for a method
            that does not use the groups.
        labels: (W, N) clusters 0..K-1 at each weight.
        chosen: index of the selected weight.
        aware: whether the method uses the groups.
        settled: (W,) whether the method converged at each weight; None: it did.
    """

    contents: Contents
    requested: int
    groups: Groups
    points: NDArray[np.floating]
    weights: Sequence[float]
    labels: NDArray[np.integer]
    chosen: int
    aware: bool = True
    settled: Sequence[bool] | None = None

    def labels_at(self, place: int) -> NDArray[np.int64]:
        return np.asarray(self.labels[place], dtype=np.int64)

    @cached_property
    def before(self) -> NDArray[np.int64]:
        """(N,) clusters without fairness, each with the number of the most similar cluster with fairness."""
        return relabelled_like(self.labels_at(self.chosen), self.labels_at(0), self.requested)

    @cached_property
    def shares(self) -> pd.DataFrame:
        """One row for each group in each cluster: the columns of `fairness.by_group.Row`, with fairness; the same with
        the prefix `before_`, without fairness; and `total`, the rows of the group."""
        before, after = (self._by_group(labels).to_frame() for labels in (self.before, self.labels_at(self.chosen)))
        group = np.tile(np.arange(len(self.groups.sizes)), self.requested + 1)
        shares = after.join(before.add_prefix("before_")).assign(total=self.groups.sizes[group])
        shares = shares.iloc[np.argsort(group, kind="stable")]
        return shares[shares["cluster"] != ALL]

    @cached_property
    def distances(self) -> list[NDArray[np.float64]]:
        """W times (N,) distance of each row to the mean of its cluster."""
        return [distances_to_means(self.points, labels) for labels in self.labels]

    @cached_property
    def steps(self) -> pd.DataFrame:
        """The effect and the cost of each weight: `weight`; `farthest`, the largest distance of a group's share in a
        cluster from its target; `lacking`, groups missing from a cluster; `lost`, empty clusters; `distance`, mean
        distance of the rows to their cluster's mean, relative to that without fairness; `moved`, rows in another
        cluster than without fairness; `settled`, whether the method converged."""
        labels = [self.labels_at(place) for place in range(len(self.weights))]
        reports = [self._by_group(own) for own in labels]
        return pd.DataFrame(
            {
                "weight": self.weights,
                "farthest": [float(np.nanmax(np.abs(report.deviation))) for report in reports],
                "lacking": [len(report.absent()) for report in reports],
                "lost": [int((report.sizes == 0).sum()) for report in reports],
                "distance": [_ratio(own.mean(), self.distances[0].mean()) for own in self.distances],
                "moved": [int((relabelled_like(own, labels[0], self.requested) != own).sum()) for own in labels],
                "settled": True if self.settled is None else list(self.settled),
            }
        )

    def _by_group(self, labels: NDArray[np.int64]) -> ByGroup:
        return ByGroup.of(self.groups.counts(labels, self.requested), self.groups)


def fairness_page(found: FairClusters, command_at: Callable[[float], str]) -> dict[str, Any]:
    """Return introduction, warnings and sections of the page. `command_at`: the command line for one weight."""
    sensitive, chosen = named(list(found.groups.attributes)), found.steps.iloc[found.chosen]
    what = f"This method does not use {sensitive}, so these are not fair clusters: the page shows how even they are."
    if found.aware:
        what = (
            f"This was done without fairness, and with it, so that the shares of the groups of {sensitive} in every "
            f"cluster approach their target. {chosen['moved']:,} rows are in another cluster than without fairness; "
            f"the mean distance from the middle of the cluster is {chosen['distance']:.3g} times that without. The "
            "column cluster of the file is with fairness."
        )
    return {
        "introduction": [f"The {found.labels.shape[1]:,} rows were divided into {found.requested} clusters. {what}"],
        "warnings": _warnings(found),
        "sections": [
            _groups(found),
            _distances(found),
            _weights(found, command_at),
            columns_section(found.contents),
            Section("What “fair” means here", [MEANING]),
        ],
    }


def _group(share: Any) -> str:
    return f"{share.attribute or '(no name)'} = {share.group}"


def _warnings(found: FairClusters) -> list[str]:
    chosen, shares, lines = found.steps.iloc[found.chosen], found.shares, []
    if found.aware and not chosen["weight"]:
        lines.append("None of the weights that were tried gives fairer clusters, so these are without fairness.")
    if found.aware and not chosen["settled"]:
        lines.append("At this weight the method stopped at max_iter before it converged; a larger max_iter may help.")
    lacking = shares[(shares["members"] == 0) & (shares["size"] > 0)].sort_values("cluster", kind="stable")
    if len(lacking):
        texts = [f"cluster {one.cluster} has no row with {_group(one)}" for one in _rows(lacking)]
        lines.append(f"{named(texts)}.")
    for one in _rows(lacking[lacking["total"] < found.requested].drop_duplicates(["attribute", "group"])):
        lines.append(
            f"{_group(one)} has {one.total:,} rows, which cannot be in each of {found.requested} clusters, whatever "
            "the weight: merge groups, or ask for fewer clusters."
        )
    if chosen["lost"]:
        lines.append(f"{found.requested} clusters were requested, but {chosen['lost']} of them have no rows.")
    return lines


def _groups(found: FairClusters) -> Section:
    """A picture of the shares farthest from their target, and all shares in a table."""
    shares = found.shares[found.shares["size"] > 0]
    away = shares[["deviation", "before_deviation"]].abs().max(axis=1).sort_values(ascending=False, kind="stable")
    columns = {"group": [_group(one) for one in _rows(shares)], "cluster": shares["cluster"]}
    if found.aware:
        columns["without"] = shares["before_share"].map(percent)
    columns["with" if found.aware else "share"] = shares["share"].map(percent)
    columns["95 % interval"] = [f"{100 * one.low:.0f} to {100 * one.high:.0f}" for one in _rows(shares)]
    columns |= {"target": shares["target"].map(percent), "p": [f"{p:.2g}" for p in shares["p_value"]]}
    caption = (
        "Share of each group among the rows of a cluster, with Wilson's 95 % interval; p: of a chi-square test that "
        "the cluster is a random sample from the target."
    )
    drawn = shares.loc[[index for index in shares.index if index in set(away.index[:DRAWN])]]
    cut = f"The {len(drawn)} shares farthest from" if len(drawn) < len(shares) else "Share of each group, and"
    about = f"{cut} the target (line){': without fairness (circle) and with it (dot)' if found.aware else ''}."
    table = of_frame(pd.DataFrame(columns), caption)
    return Section(
        "The groups in every cluster", picture=picture(bars(drawn, found.aware)), about=about, tables=[table]
    )


@styled
def bars(shares: pd.DataFrame, aware: bool) -> "Figure":
    """Draw each share of a group in a cluster as a dot, with its target as a line, and without fairness as a circle."""
    figure, axes = new_figure(5.6, 0.6 + 0.22 * len(shares))
    places = -np.arange(len(shares))
    axes.plot(100 * shares["target"], places, "|", color="0.2", markersize=13, markeredgewidth=1.6)
    if aware:
        axes.hlines(places, 100 * shares["before_share"], 100 * shares["share"], color="0.7")
        axes.plot(100 * shares["before_share"], places, "o", markerfacecolor="white", markeredgecolor="0.35")
    axes.plot(100 * shares["share"], places, "o", color=COLOURS[0])
    names = [f"cluster {one.cluster}, {_group(one)[:40]}".replace("$", r"\$") for one in _rows(shares)]
    axes.set(xlim=(-2, 102), xlabel="share of the rows of the cluster (%)", yticks=places, yticklabels=names)
    return figure


def _distances(found: FairClusters) -> Section:
    """The mean distance of the rows of each group to the middle of their cluster, without and with fairness."""
    groups = found.groups
    without, after = (
        np.bincount(groups.cells, found.distances[place]) @ groups.membership / groups.sizes
        for place in (0, found.chosen)
    )
    names = [
        f"{groups.attributes[t] or '(no name)'} = {name}"
        for t, name in zip(groups.attribute_of, groups.names, strict=True)
    ]
    columns = {"group": names, "without": [*map(number, without)], "with": [*map(number, after)]}
    if not found.aware:
        columns = {"group": names, "distance": columns["with"]}
    about = "Distance of a row from the middle of its cluster, on average over a group."
    return Section("How well the clusters fit each group", tables=[of_frame(pd.DataFrame(columns), about)])


def _weights(found: FairClusters, command_at: Callable[[float], str]) -> Section:
    """What each weight does, and the commands for more fairness or less."""
    heading, steps = "More fairness, or less", found.steps
    if np.isnan(found.weights[-1]):
        words = "This method has no fairness_weight. One that has compares several weights:"
        return Section(heading, items=[Item(words, "method=fair_kmeans")])
    marks = [" *" if place == found.chosen else "" for place in steps.index]
    frame = pd.DataFrame(
        {
            "fairness_weight": [
                f"{weight_name(w)} {mark}".strip() for w, mark in zip(steps["weight"], marks, strict=True)
            ],
            "largest difference from the target": steps["farthest"].map(percent),
            "groups missing": steps["lacking"],
            "clusters without rows": steps["lost"],
            "distance": steps["distance"].map("{:.3g}".format),
            "moved": steps["moved"],
            "converged": steps["settled"].map({True: "yes", False: "no"}),
        }
    )
    about = (
        "* this page. Distance: mean distance from the middle of the cluster, divided by that of weight 0; moved: rows "
        "in another cluster than at weight 0."
    )
    items = [Item(f"For {name} fairness:", command_at(weight)) for name, weight in other_weights(found).items()]
    return Section(heading, tables=[of_frame(frame, about)], items=items)


def other_weights(found: FairClusters) -> dict[str, float]:
    """Return weights to suggest, if there are such: "less", the largest positive one with noticeably less fairness, and
    "more", one with noticeably more that loses no cluster and no group of a cluster."""
    steps, chosen = found.steps, found.steps.iloc[found.chosen]
    smaller, larger = steps.index < found.chosen, steps.index > found.chosen
    whole = (steps["lost"] <= chosen["lost"]) & (steps["lacking"] <= chosen["lacking"])
    less = smaller & (steps.index > 0) & (steps["farthest"] > chosen["farthest"] + NOTICED)
    more = larger & whole & (steps["farthest"] < chosen["farthest"] - NOTICED)
    advised = {"less": steps["weight"][less].tolist()[-1:], "more": steps["weight"][more].tolist()}
    if chosen["farthest"] > NOTICED and not larger.any():
        advised["more"] = [MORE * found.weights[-1]]
    return {name: weights[0] for name, weights in advised.items() if weights}


def _rows(frame: pd.DataFrame) -> list[Any]:
    return list(frame.itertuples())


def _ratio(mean: float, other: float) -> float:
    """Return the ratio of means; 1 if both are 0."""
    return 1.0 if mean == other else float(mean / other) if other else float("inf")
