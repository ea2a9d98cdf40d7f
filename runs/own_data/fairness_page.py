"""The page about the fairness of the clusters of a user's own table: the groups in each cluster, and the cost."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import relabelled_like
from fairness.by_group import ALL, ByGroup
from fairness.datasets.table import Table
from fairness.groups import Groups, groups_of
from runs.cache import Store
from runs.own_data.clusters_page import columns_section
from runs.own_data.page import Page, Written, named, percent, write_table
from runs.report.sections import Item, Section, table_of
from runs.stages.fair.results import FairResult
from runs.stages.fair.stage import knows_groups

MEANING = (
    "Fair means here that every cluster has about the same share of each group. It does not mean that a decision based "
    "on the clusters is right, or allowed; and if a group was measured badly, fair clusters do not correct this."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class FairClusters:
    """The fair clusters of a table of N rows, beside those without fairness.

    Attributes:
        contents: the table.
        requested: requested number K of clusters.
        groups: the J groups of the sensitive columns, with their target shares in the clusters.
        labels: (N,) clusters 0..K-1.
        unfair: (N,) clusters of the same objective without fairness; None if they are unknown.
        aware: whether the method uses the groups.
        settled: whether the method converged.
        weights: what each fairness weight does, a row each; None for a method without weights.
    """

    contents: Contents
    requested: int
    groups: Groups
    labels: NDArray[np.int64]
    unfair: NDArray[np.int64] | None
    aware: bool = True
    settled: bool = True
    weights: pd.DataFrame | None = None

    @cached_property
    def before(self) -> NDArray[np.int64]:
        """(N,) clusters without fairness, each with the number of the most similar cluster with fairness."""
        return self.labels if self.unfair is None else relabelled_like(self.labels, self.unfair, self.requested)

    @cached_property
    def shares(self) -> pd.DataFrame:
        """One row for each group in each cluster: the columns of `fairness.by_group.Row`, with fairness; the same with
        the prefix `before_`, without fairness; `total`, the rows of the group; and `called`, the group in words."""
        before, after = (
            ByGroup.of(self.groups.counts(labels, self.requested), self.groups).to_frame()
            for labels in (self.before, self.labels)
        )
        group = np.tile(np.arange(len(self.groups.sizes)), self.requested + 1)
        shares = after.join(before.add_prefix("before_")).assign(total=self.groups.sizes[group])
        shares["called"] = shares["attribute"].replace("", "(no name)") + " = " + shares["group"].astype(str)
        shares = shares.iloc[np.argsort(group, kind="stable")]
        return shares[shares["cluster"] != ALL]


def write_fair_clusters(result: FairResult, store: Store, command: str) -> Written:
    """Write the rows and the page of a table with fair clusters.

    Args:
        result: the result of a config with dataset=table.
        store: the store, for the default folder.
        command: the command line that produces this result.
    """
    config, found = result.config, result.found
    table: Table = config.dataset.build()
    data, aware = table.read(), knows_groups(config.method.kind)
    positive = np.flatnonzero(found.weights > 0)  # a single given weight is the selected one
    place = int(positive[0]) if config.fairness_weight is not None and len(positive) == 1 else found.chosen
    price, weights = float(found.price[place]) if aware else np.nan, None
    if not np.isnan(found.weights).any():
        weights = pd.DataFrame(
            {
                "fairness_weight (* this page)": [
                    f"{weight:.4g}{' *' * (row == place)}" for row, weight in enumerate(found.weights)
                ],
                "price": [f"{one:.4g}" for one in found.price],
                "fairness error": [f"{one:.4g}" for one in found.fairness_error],
                "least balance": [f"{one:.3f}" for one in found.balance_min],
                "groups missing": found.absent,
                "clusters without rows": result.n_clusters - found.clusters,
                "converged": np.where(found.converged, "yes", "no"),
            }
        )
    clusters = FairClusters(
        contents=table.contents(),
        requested=result.n_clusters,
        groups=_groups_of(result, data.sensitive, len(data.values)),
        labels=found.labels[place].astype(np.int64),
        unfair=found.labels[0].astype(np.int64) if found.weights[0] == 0 else None,
        aware=aware,
        settled=bool(found.converged[place]),
        weights=weights,
    )
    facts = {
        "fairness error": f"{found.fairness_error[place]:.4g} (sum of KL over clusters, in nats)",
        **({} if np.isnan(price) else {"price of fairness": f"{price:.4g} of the objective without"}),
        "minimum balance": f"{found.balance_min[place]:.3f} (whole table {found.data_balance:.3f})",
    }
    added = {"cluster": clusters.labels}
    return write_table(fairness_page(clusters), result, clusters.contents, added, facts, store, command)


def _groups_of(result: FairResult, sensitive: Any, rows: int) -> Groups:
    """The groups of the sensitive columns, or of their combinations, with their target."""
    crossed = bool(result.config.method.options.get("intersectional"))
    groups = replace(groups_of(sensitive, rows, intersectional=crossed), target=result.found.target)
    if not groups.crossed:
        return groups
    return replace(groups, names=tuple(map(" / ".join, groups.names)), attributes=(" / ".join(groups.crossed),))


def fairness_page(found: FairClusters) -> Page:
    """The page, without what concerns the run."""
    sensitive = named(list(found.groups.attributes))
    what = f"This method does not use {sensitive}, so these are not fair clusters: the page shows how even they are."
    if found.aware:
        what = f"The shares of the groups of {sensitive} in every cluster approach their target."
    if found.unfair is not None:
        moved = int((found.before != found.labels).sum())
        what += f" {moved:,} rows are in another cluster than without fairness."
    words, tables = Item("This method has no fairness_weight. One that has compares several:", "method=fair_kmeans"), []
    if found.weights is not None:
        about = "Price: how much larger the objective is than without fairness, as a share."
        words, tables = Item("To choose a weight:", "fairness_weight=VALUE"), [table_of(found.weights, about)]
    sections = [
        _groups(found),
        Section("More fairness, or less", tables=tables, items=[words]),
        columns_section(found.contents),
        Section("What “fair” means here", [MEANING]),
    ]
    title = "Fair clusters in " if found.aware else "Groups in the clusters of "
    rows = f"The {len(found.labels):,} rows were divided into {found.requested} clusters. {what}"
    return Page(title, [rows], sections, _warnings(found))


def _warnings(found: FairClusters) -> list[str]:
    shares, lines = found.shares, list[str]()
    if found.unfair is not None and (found.before == found.labels).all():
        lines.append("The clusters are the same as without fairness; a larger fairness_weight may give fairer ones.")
    if not found.settled:
        lines.append("The method stopped at max_iter before it converged; a larger max_iter may help.")
    lacking = shares[(shares["members"] == 0) & (shares["size"] > 0)].sort_values("cluster", kind="stable")
    if len(lacking):
        pairs = zip(lacking["cluster"], lacking["called"], strict=True)
        lines.append(f"{named([f'cluster {cluster} has no row with {group}' for cluster, group in pairs])}.")
    small = lacking[lacking["total"] < found.requested].drop_duplicates("called")
    for group, total in zip(small["called"], small["total"], strict=True):
        lines.append(
            f"{group} has {total:,} rows, which cannot be in each of {found.requested} clusters, whatever the weight: "
            "merge groups, or ask for fewer clusters."
        )
    if lost := found.requested - len(np.unique(found.labels)):
        lines.append(f"{found.requested} clusters were requested, but {lost} of them have no rows.")
    return lines


def _groups(found: FairClusters) -> Section:
    """The shares of the groups in every cluster."""
    shares, compared = found.shares[found.shares["size"] > 0], found.unfair is not None
    table = pd.DataFrame({"group": shares["called"], "cluster": shares["cluster"]})
    if compared:
        table["without fairness"] = shares["before_share"].map(percent)
    table["with fairness" if compared else "share"] = shares["share"].map(percent)
    limits = zip(100 * shares["low"], 100 * shares["high"], strict=True)
    table["95 % interval"] = [f"{low:.0f} to {high:.0f}" for low, high in limits]
    table["target"], table["p"] = shares["target"].map(percent), shares["p_value"].map("{:.2g}".format)
    caption = (
        "Share of each group among the rows of a cluster, with Wilson's 95 % interval; p: of a chi-square test that "
        "the cluster is a random sample from the target."
    )
    return Section("The groups in every cluster", tables=[table_of(table, caption)])
