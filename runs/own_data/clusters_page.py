"""The page about the clusters of a user's own table: sizes, averages, a picture, typical rows, and their stability."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.datasets.table import Contents
from clustering.evaluation.near_copies import near_copies
from clustering.evaluation.profiles import Profile, agreement, principal_plane, profiles
from clustering.files.cells import date_of
from clustering.foundation.streams import stream
from runs.cache import Store
from runs.figures.style import new_figure, series, styled
from runs.own_data.page import (
    Page,
    Written,
    as_utf8,
    columns_used,
    csv_of,
    data_url,
    number,
    output_of,
    percent,
    run_facts,
    write_page,
    write_table,
)
from runs.own_data.pictures import thumbnail_urls, with_features
from runs.own_data.tables import FOLDER, OF_FEATURES, OF_PICTURES
from runs.report.sections import Item, Section, Shown, Table, table_of
from runs.stages.clustering.results import Clustered, named_clusters
from runs.stages.clustering.stage import points_of
from runs.stages.clustering.trials import known_labels
from runs.storage.disk import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 1_500  # maximum number of rows in the plot
COMPARED = 20  # maximum number of columns in the table of averages
SHOWN = 8  # maximum number of columns shown for a row
PICTURED = 12  # maximum number of pictures of a cluster
COPIED = 60  # maximum number of near copies shown
NEARLY_ALL = 0.9  # share of the points in one cluster from which a page warns
COPIES = f"Each counts as a picture of its own; copy_of in the CSV file names the first one. Shown: at most {COPIED}."
LIMITS_OF_METHODS = "A method divides the points even if there are no clusters."
LIMITS = (
    "A method returns the requested number of groups even if the table has none. All columns have the same weight. "
    "Check the groups on rows that were not in this table before you rely on them."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """The clusters of a table with at least two rows.

    Attributes:
        contents: the table.
        labels: (N,) cluster of each row, -1 for rows without a cluster.
        others: labels from other starts of the method; empty for a single start.
        requested: requested number of clusters.
        given: number of rows whose groups the method was given.
        names: names of the first clusters by known labels; the others have none.
    """

    contents: Contents
    labels: NDArray[np.integer]
    others: Sequence[NDArray[np.integer]]
    requested: int
    given: int = 0
    names: Sequence[str] = ()

    @cached_property
    def groups(self) -> list[Profile]:
        """The clusters with rows, by descending size."""
        found = profiles(self.contents.values, self.labels, column_of=self.contents.column_of)
        return [profile for profile in found if profile.cluster >= 0]

    def called(self, cluster: int) -> str:
        """The number of a cluster, and its name if it has one."""
        return f"{cluster} ({self.names[cluster]})" if 0 <= cluster < len(self.names) else str(cluster)


def write_clusters(result: Clustered, store: Store, command: str) -> Written:
    """Write the rows and the page of a clustered table. With known labels, clusters have their names in the rows, and
    numbers with names on the page.

    Args:
        result: the result of a config with dataset=table.
        store: the store, for the default folder.
        command: the command line that produces this result.
    """
    config, trials, table = result.config, result.trials, result.config.dataset.build()
    contents: Contents = table.contents()
    labels, confidence = _chosen(result)
    known = None if config.asked_labels() is None else known_labels(config, table.read())
    found = Found(
        contents=contents,
        labels=labels,
        others=[trials.labels[i].astype(np.int64) for i in np.flatnonzero(trials.given) if i != trials.chosen],
        requested=result.n_clusters,
        given=0 if known is None else int(known.known.sum()),
        names=() if known is None else known.class_names,
    )
    added = {"cluster": named_clusters(labels, known), "confidence": np.round(confidence.astype(np.float32), 4)}
    facts = {**_facts(result), "starts": str(int(trials.given.sum()))}
    return write_table(clusters_page(found), result, contents, added, facts, store, command)


def write_picture_clusters(result: Clustered, store: Store, command: str) -> Written:
    """Write file, cluster, confidence and the first near copy of each picture, and a page with pictures of each cluster
    and of near copies. With given labels, clusters have the names of their classes, otherwise numbers."""
    config, pixels = result.config, result.config.dataset.build().read()
    data = with_features(pixels, config) if config.encoder else pixels
    top = Path(config.dataset.options["root"]).expanduser()
    labels, confidence = _chosen(result)
    clusters = named_clusters(labels, known_labels(config, data))
    names, first = np.array(data.names, dtype=object), near_copies(pixels)
    again = first != np.arange(len(names))
    columns = names, clusters.astype(str), confidence, np.where(again, names[first], "")
    frame = pd.DataFrame(dict(zip(OF_PICTURES, columns, strict=True)), dtype=object).astype({OF_PICTURES[2]: float})
    typical = {  # without near copies, which would show one picture several times
        one.cluster: [row for row in one.typical if not again[row]][:PICTURED] or one.typical[:PICTURED]
        for one in profiles(data.values, labels, typical=4 * PICTURED)
    }
    copied = [int(row) for one in np.unique(first[again]) for row in np.flatnonzero(first == one)][:COPIED]
    urls = thumbnail_urls([str(top / names[row]) for rows in [*typical.values(), copied] for row in rows])

    def shown(rows: Iterable[int]) -> list[Shown]:
        return [
            Shown(urls[str(top / names[row])], as_utf8(names[row]), percent(float(confidence[row]), "")) for row in rows
        ]

    sections = []
    for cluster, rows in typical.items():
        members = labels == cluster
        sections.append(Section(f"{clusters[members][0]}: {int(members.sum()):,} pictures", gallery=shown(rows)))
    if again.any():
        about = (
            f"{int(again.sum()):,} pictures are near copies of others: the same one resized, or saved again. {COPIES}"
        )
        sections.append(Section("Near copies", [about], gallery=shown(copied)))
    page = Page(
        title=f"Pictures in {top.resolve().name}, by cluster",
        introduction=[f"{len(labels):,} pictures, of each cluster those nearest to its average. {LIMITS_OF_METHODS}"],
        sections=sections,
        warnings=doubts(labels, result.n_clusters, "cluster", "picture"),
        facts={"clustered": config.encoder or "pixels"},
    )
    return _write(page, frame, result, FOLDER, store, command)


def write_feature_clusters(result: Clustered, store: Store, command: str) -> Written:
    """Write number (from 1), cluster and confidence of each row of features, and a page with the sizes of the clusters.
    With given labels, clusters have the names of their classes, otherwise numbers."""
    config, path = result.config, Path(result.config.dataset.options["path"])
    labels, confidence = _chosen(result)
    clusters = named_clusters(labels, known_labels(config, points_of(config))).astype(str)
    rows = np.arange(1, 1 + len(labels))
    frame = pd.DataFrame(dict(zip(OF_FEATURES, (rows, clusters, confidence), strict=True)))
    sizes = frame["cluster"].value_counts().rename_axis("cluster").reset_index(name="rows")
    page = Page(
        title=f"Clusters of {path.name}",
        introduction=[f"The {len(rows):,} rows were divided into {len(sizes):,} clusters. {LIMITS_OF_METHODS}"],
        sections=[Section("The clusters", tables=[table_of(sizes)])],
        warnings=doubts(labels, result.n_clusters, "cluster", "row"),
    )
    return _write(page, frame, result, path.stem, store, command)


def _write(page: Page, frame: pd.DataFrame, result: Clustered, stem: str, store: Store, command: str) -> Written:
    """Write a frame as CSV, and its page, to which the facts about the run are added."""
    page = replace(page, facts={**page.facts, **_facts(result), **run_facts(result)})
    place = output_of(result, stem, store)
    return write_page(page, result.config.method, command, place, lambda path: write_text(path, csv_of(frame, 4)))


def _chosen(result: Clustered) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """(N,) clusters and confidences of the chosen trial, NaN without confidences."""
    trials = result.trials
    labels = trials.labels[trials.chosen].astype(np.int64)
    return labels, np.full(len(labels), np.nan) if trials.confidence is None else trials.confidence


def _facts(result: Clustered) -> dict[str, str]:
    found = result.found_number
    return {} if found is None else {"number of clusters": "auto", "contrasts of numbers": found.curve}


def clusters_page(found: Found) -> Page:
    """The page, without what concerns the run."""
    groups, count = found.groups, len(found.labels)
    warnings = doubts(found.labels, found.requested, "group", "row")
    stable = "The method was run once, so this page cannot show how much depends on the random start."
    if found.others:
        stable = (
            f"The method was run {len(found.others) + 1} times, each time from another random start. On average "
            f"{percent(float(agreement(found.labels, found.others).mean()))} of the rows were in the same group as in "
            "this result."
        )
    sizes = {
        "group": [found.called(one.cluster) for one in groups],
        "rows": [f"{one.rows:,}" for one in groups],
        "share": [percent(one.share) for one in groups],
    }
    ask = Item("To try more or fewer groups:", f"n_clusters={found.requested + 1}")
    sections = [
        Section("The groups", tables=[table_of(pd.DataFrame(sizes)), _averages(found)]),
        _map(found),
        Section("Typical rows", tables=[_typical(found)]),
        columns_section(found.contents),
        Section("How reliable is this?", [f"{stable} {LIMITS}"], [ask]),
    ]
    given = f" The method was given the groups of {found.given:,} rows." if found.given else ""
    intro = f"The {count:,} rows were divided into {len(groups)} groups of similar rows.{given}"
    return Page("Groups in ", [intro], sections, warnings)


def doubts(labels: NDArray[np.integer], requested: int, cluster: str, point: str) -> list[str]:
    """Warnings about clusters: points without one, fewer than requested, or nearly all points in one.

    Args:
        labels: (N,) cluster of each point, -1 for those without one.
        requested: requested number of clusters.
        cluster, point: what clusters and points are called.
    """
    _, sizes = np.unique(labels[labels >= 0], return_counts=True)
    alone, lost, share = int((labels < 0).sum()), requested - len(sizes), sizes.max(initial=0) / len(labels)
    found = [f"{alone:,} {point}s are in no {cluster} (cluster -1): no other {point} is near enough."] * (alone > 0)
    if lost > 0 and not alone:
        found.append(f"{requested} {cluster}s were requested, but {lost} of them have no {point}s.")
    if share > NEARLY_ALL and requested > 1:
        found.append(
            f"One {cluster} has {percent(share)} of the {point}s. Where {cluster}s overlap, a neighbour graph does not "
            "divide them: compare with method=kmeans, or with weight=0.25."
        )
    return found


def columns_section(contents: Contents) -> Section:
    """The section about the use of the columns of a table."""
    ask = Item("To use other columns, name all that are to be used:", "columns=a,b,c")
    return Section("The columns", items=[*map(Item, columns_used(contents)), ask])


def _averages(found: Found) -> Table:
    """The means of the groups, in the columns with the largest differences."""
    groups, features = found.groups, found.contents.features
    values = pd.DataFrame({one.cluster: one.means for one in groups})
    size = pd.DataFrame({one.cluster: np.abs(one.differences) for one in groups})
    rows = []
    for place in size.max(axis=1).sort_values(ascending=False, kind="stable").index[:COMPARED]:
        column, kind, category = features[place].column, features[place].kind, features[place].category
        show = percent if kind == "categories" else date_of if kind == "dates" else number
        heading = f"{column}: {category}" if kind == "categories" else column
        rows.append([heading, *(show(float(value)) for value in values.loc[place])])
    frame = pd.DataFrame(rows, columns=["column", *(f"group {found.called(one.cluster)}" for one in groups)])
    cut = f"; {len(rows)} of {len(size)}" if len(size) > len(rows) else ""
    about = f"Averages; of a category, the share of rows that have it. The largest differences come first{cut}."
    return table_of(frame, about)


def _map(found: Found) -> Section:
    """The rows in the plane that keeps most of their differences."""
    sample = np.arange(len(found.labels))
    if len(sample) > DOTS:
        sample = np.sort(stream(0, "picture of a table").choice(len(sample), DOTS, replace=False))
    plane, kept = principal_plane(found.contents.values[sample], found.contents.column_of)
    drawn = f" ({len(sample):,} rows, drawn at random)" if len(sample) < len(found.labels) else ""
    about = (
        f"Each mark is a row{drawn}; the numbers are those of the groups. Two dimensions keep {percent(kept)} of the "
        "differences between rows, so groups that overlap here may still be separate."
    )
    figure = scatter(plane, found.labels[sample], [group.cluster for group in found.groups])
    return Section("A picture", picture=data_url(figure), about=about)


def _typical(found: Found) -> Table:
    """The rows closest to the average of their group, with columns that identify them: unused ones, then used ones."""
    contents = found.contents
    names, used = contents.file.names, contents.columns
    others = [name for name in names if name not in used][:4]
    kept = [name for name in names if name in {*others, *used[: SHOWN - len(others)]}]
    rows = []
    for one in found.groups:
        for row in one.typical:
            place = int(contents.rows[row])
            cells = [str(contents.file.column(name).iloc[place]) for name in kept]
            cells = [cell if len(cell) <= 40 else f"{cell[:39]}…" for cell in cells]
            rows.append([found.called(one.cluster), f"{place + 1:,}", *cells])
    frame = pd.DataFrame(rows, columns=["group", "row", *kept])
    return table_of(frame, "Closest to the average of their group; rows are counted from 1.", text=kept)


@styled
def scatter(plane: NDArray[np.floating], labels: NDArray[np.integer], clusters: Sequence[int]) -> "Figure":
    """Draw (n, 2) rows as marks, and the number of each cluster at the median of its rows."""
    figure, axes = new_figure(5.6, 3.8)
    for place, cluster in enumerate(clusters):
        members = plane[labels == cluster]
        axes.plot(*members.T, **series(place) | {"linestyle": "none"}, alpha=0.7, markersize=3.5)
        if len(members):
            box = {"boxstyle": "round", "facecolor": "white", "alpha": 0.8, "linewidth": 0.5}
            x, y = np.median(members, axis=0).tolist()
            axes.text(x, y, str(cluster), weight="bold", ha="center", va="center", bbox=box)
    axes.plot(*plane[labels < 0].T, ".", color="0.6", markersize=3)
    axes.set(xticks=[], yticks=[])
    return figure
