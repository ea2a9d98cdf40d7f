"""The page about the fairness of the clusters of a user's own table: the groups in each cluster, before and after, and
the cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import profiles, relabelled_like
from fairness.by_group import ALL, ByGroup
from fairness.groups import Groups
from fairness.objectives import distances_to_means
from runs.figures.style import COLOURS, new_figure, styled
from runs.own_data.page import picture
from runs.own_data.table_columns import named
from runs.own_data.words import (
    columns_section,
    described,
    farther,
    kinds,
    number,
    of_hundred,
    percent,
    rows_in,
    weight_name,
)
from runs.report.sections import Item, Section, table_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 24  # maximum number of shares in the picture: those farthest from their target
NAMED = 6  # maximum number of groups in a sentence
NOTICED = 0.01  # differences between shares below this are ignored
CHANCE = 0.05  # p-value above which a difference is not significant
MORE = 10.0  # factor of the largest weight, for the suggestion of a larger weight
MEANING = (
    "Fair means on this page that every cluster has about the same share of each group. It does not mean that a "
    "decision based on the clusters is right, or allowed.",
    "If the table itself is unfair, for example because a group was measured badly, fair clusters do not correct this.",
    "In a small cluster, a few rows make a large difference; shares can only be equal up to one row.",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class FairClusters:
    """A table of N rows, clustered at W fairness weights.

    Attributes:
        contents: the table.
        requested: requested number K of clusters.
        groups: the J groups of the sensitive columns, with their target shares in the clusters.
        targeted: whether the user gave the target; otherwise it is the share in the whole table.
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
    targeted: bool = False
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
    def all_shares(self) -> pd.DataFrame:
        """One row for each group in each cluster, and in all rows: the columns of `fairness.by_group.Row`, with
        fairness; the same with the prefix `before_`, without fairness; `total`, the rows of the group; and `away` and
        `before_away`, the distance of the share from the target."""
        before, after = (self._by_group(labels).to_frame() for labels in (self.before, self.labels_at(self.chosen)))
        group = np.tile(np.arange(len(self.groups.sizes)), self.requested + 1)
        shares = after.join(before.add_prefix("before_")).assign(total=self.groups.sizes[group])
        for prefix in ("", "before_"):
            shares[f"{prefix}away"] = shares[f"{prefix}deviation"].abs()
        return shares.iloc[np.argsort(group, kind="stable")]

    @property
    def shares(self) -> pd.DataFrame:
        """The rows of `all_shares` for clusters, by attribute, group and cluster."""
        return self.all_shares[self.all_shares["cluster"] != ALL]

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
    whole, sensitive = found.all_shares[found.all_shares["cluster"] == ALL], named(list(found.groups.attributes))
    if found.aware:
        what = (
            f"This was done twice: without fairness, from these columns only, and with fairness, so that the shares of "
            f"the groups of {sensitive} in every cluster approach {_goal(found)}. The column cluster of the file is "
            "with fairness."
        )
    else:
        what = (
            f"This method does not use {sensitive}, so these are not fair clusters: the page shows how even they are."
        )
    weights = _weights(found, command_at)
    both = [name for name in found.groups.attributes if name in found.contents.columns]
    meaning = [*MEANING, f"Only {sensitive} {'were' if len(found.groups.attributes) > 1 else 'was'} considered."]
    if len(found.groups.attributes) > 1:
        meaning.append(f"Each of {sensitive} is considered separately; their combinations may still be uneven.")
    if both and found.aware:
        meaning.append(f"{named(both)} was also used to compare rows, which counteracts fairness.")
    of_whole = [
        f"Of 100 rows of the whole table, {_shares(own, 'share')}."
        + (f" The target, of 100 rows of a cluster: {_shares(own, 'target')}." if found.targeted else "")
        for _, own in whole.groupby("attribute", sort=False)
    ]
    return {
        "introduction": [f"The {rows_in(found.labels.shape[1])} were divided into {found.requested} clusters. {what}"],
        "warnings": _warnings(found, whole),
        "sections": [
            Section("In short", items=[*map(Item, [*of_whole, *_in_short(found)])]),
            _groups(found),
            _clusters(found),
            columns_section(found.contents),
            _distances(found),
            weights,
            Section("What “fair” means on this page", items=[*map(Item, meaning)]),
        ],
    }


def _goal(found: FairClusters) -> str:
    return "the target" if found.targeted else "the whole table"


def _group(share: Any) -> str:
    return f"{share.attribute or '(no name)'} = {share.group}"


def _shares(own: pd.DataFrame, which: str) -> str:
    texts = [f"{of_hundred(getattr(share, which))} have {_group(share)}" for share in _rows(own)]
    more = f", and {len(texts) - NAMED} other values" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more


def _in_short(found: FairClusters) -> list[str]:
    """The shares farthest from their target, and the cost."""

    def farthest(prefix: str) -> str:
        one = _worst(found.shares, prefix)
        share = of_hundred(getattr(one, f"{prefix}share"))
        return (
            f"the largest difference from {_goal(found)} is in cluster {one.cluster}: {share} of 100 rows have "
            f"{_group(one)}, instead of {of_hundred(one.target)}."
        )

    if not found.aware:
        return [f"As clustered, {farthest('')}"]
    chosen = found.steps.iloc[found.chosen]
    cost = "none. No row is in another cluster than without fairness."
    if chosen["moved"]:
        cost = (
            f"{rows_in(chosen['moved'])} ({percent(chosen['moved'] / found.labels.shape[1])}) in another cluster than "
            f"without fairness; on average a row is {farther(chosen['distance'])} from the middle of its cluster."
        )
    after = f"With fairness, {farthest('')}"
    if not chosen["weight"]:
        after = "None of the weights that were tried gives fairer clusters, so these are without fairness."
    return [f"Without fairness, {farthest('before_')}", after, f"The cost: {cost}"]


def _warnings(found: FairClusters, whole: pd.DataFrame) -> list[str]:
    chosen, lines = found.steps.iloc[found.chosen], []
    if found.aware and not chosen["settled"]:
        lines.append("At this weight the method stopped at max_iter before it converged; a larger max_iter may help.")
    if found.aware and (whole["away"] > NOTICED).any():
        lines.append(
            "Not all clusters can reach the target: together they have the shares of the whole table, so if one has a "
            "smaller share of a group, another has a larger one."
        )
    shares = found.shares
    lacking = shares[(shares["members"] == 0) & (shares["size"] > 0)].sort_values("cluster", kind="stable")
    if len(lacking):
        texts = [f"cluster {one.cluster} has no row with {_group(one)}" for one in _rows(lacking[:NAMED])]
        more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
        lines.append(f"{'Also with fairness, ' * (found.aware and bool(chosen['weight']))}{', '.join(texts)}{more}.")
    rare = lacking[lacking["total"] < found.requested].drop_duplicates(["attribute", "group"])
    for one in _rows(rare[:NAMED]):
        lines.append(
            f"{_group(one)} has {rows_in(one.total)}, which cannot be in each of {found.requested} clusters, whatever "
            "the weight: merge groups, or ask for fewer clusters."
        )
    if chosen["lost"]:
        lines.append(f"{found.requested} clusters were requested, but {chosen['lost']} of them have no rows.")
    return lines


def _groups(found: FairClusters) -> Section:
    """A picture of the shares farthest from their target, and all shares in a table."""
    shares = found.shares[found.shares["size"] > 0]
    largest = shares[["away", "before_away"]].max(axis=1).sort_values(ascending=False, kind="stable").index[:DRAWN]
    kept = "without", "with"
    rows = []
    for one in _rows(shares):
        around = f"{100 * one.low:.0f} to {100 * one.high:.0f}"
        now = (of_hundred(one.before_share), of_hundred(one.share)) if found.aware else (of_hundred(one.share),)
        chance = "may be" if one.p_value >= CHANCE else "no"
        rows.append((_group(one), str(one.cluster), *now, around, of_hundred(one.target), chance))
    headings = ["*group", "cluster", *(kept if found.aware else ("share",)), "likely", _goal(found), "*chance"]
    caption = (
        "Rows of each group among 100 rows of a cluster. “Likely” is the 95 % confidence interval; “chance”: whether "
        f"one of 20 random clusters of this size, drawn with the shares of {_goal(found)}, would differ as much."
    )
    drawn = shares.loc[[index for index in shares.index if index in set(largest)]]
    cut = f"The {len(drawn)} shares farthest from" if len(drawn) < len(shares) else "Share of each group, and"
    about = f"{cut} {_goal(found)} (line){': without fairness (circle) and with it (dot)' if found.aware else ''}."
    table = table_of(headings, rows, caption, folded="All numbers" if len(rows) > DRAWN else "")
    figure = bars(drawn, found.aware)
    return Section("The groups in every cluster", picture=picture(figure), about=about, tables=[table])


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
    axes.set(xlim=(-2, 102), xlabel="of 100 rows of the cluster", yticks=places, yticklabels=names)
    return figure


def _clusters(found: FairClusters) -> Section:
    features, names = kinds(found.contents), [feature.name for feature in found.contents.features]
    own = profiles(found.contents.values, found.labels_at(found.chosen), names, column_of=found.contents.column_of)
    rows = [(str(one.cluster), f"{one.rows:,}", described(one, features) or "no difference") for one in own]
    table = table_of(["cluster", "rows", "*compared with all other rows"], sorted(rows, key=lambda row: int(row[0])))
    return Section("Description of the clusters", tables=[table])


def _distances(found: FairClusters) -> Section:
    """The mean distance of the rows of each group to the middle of their cluster, without and with fairness."""
    groups, rows = found.groups, []
    before, after = (
        np.bincount(groups.cells, found.distances[place]) @ groups.membership / groups.sizes
        for place in (0, found.chosen)
    )
    for t, name, *means in zip(groups.attribute_of, groups.names, before, after, strict=True):
        change = (number(means[1]), farther(_ratio(means[1], means[0]))) if found.aware else ()
        rows.append((f"{groups.attributes[t] or '(no name)'} = {name}", number(means[0]), *change))
    headings = ["group", "without", "with", "*with fairness"] if found.aware else ["group", "distance"]
    about = "Distance of a row from the middle of its cluster, on average over a group."
    return Section("How well the clusters fit each group", tables=[table_of(headings, rows, about)])


def _weights(found: FairClusters, command_at: Callable[[float], str]) -> Section:
    """What each weight does, and the commands for more fairness or less."""
    heading, steps = "More fairness, or less", found.steps
    if np.isnan(found.weights[-1]):
        words = "This method has no fairness_weight. One that has compares several weights:"
        return Section(heading, items=[Item(words, "method=fair_kmeans")])
    rows = [
        (
            weight_name(step.weight) + (" *" if step.Index == found.chosen else ""),
            of_hundred(step.farthest),
            str(step.lacking),
            str(step.lost),
            farther(step.distance),
            f"{step.moved:,}",
            "yes" if step.settled else "no",
        )
        for step in _rows(steps)
    ]
    headings = [
        "fairness_weight",
        "farthest",
        "groups missing",
        "clusters without rows",
        "*distance",
        "moved",
        "*converged",
    ]
    about = (
        f"* this page. “Farthest”: the largest difference of a group in a cluster from {_goal(found)}, in rows of 100; "
        "“distance”: from the middle of the cluster, compared with weight 0; “moved”: rows in another cluster."
    )
    advice = other_weights(found)
    items = [Item(f"For {name} fairness:", command_at(weight)) for name, weight in advice.items()]
    if "more" not in advice:
        level = steps["farthest"][found.chosen] <= NOTICED
        items.append(Item(f"More fairness {'of this kind is not possible' if level else 'came with no weight tried'}."))
    return Section(heading, tables=[table_of(headings, rows, about)], items=items)


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


def _worst(shares: pd.DataFrame, prefix: str) -> Any:
    """Return the share farthest from its target; ties go to the rarer group."""
    order = shares.assign(order=shares[f"{prefix}away"].round(9).fillna(-1.0))
    return next(order.sort_values(["order", "target"], ascending=[False, True], kind="stable").itertuples())


def _ratio(mean: float, other: float) -> float:
    """Return the ratio of means; 1 if both are 0."""
    return 1.0 if mean == other else float(mean / other) if other else float("inf")
