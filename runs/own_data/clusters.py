"""The page about the clusters of a user's own table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import Profile, agreement, principal_plane, profiles, spreads
from clustering.foundation.streams import stream
from runs.figures.style import new_figure, series, styled
from runs.own_data.page import Command, picture
from runs.own_data.words import columns_section, compared, described, kinds, percent, rows_in
from runs.report.sections import Column, Item, Section, Table, table_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 1_500  # maximum number of rows in the plot and for the silhouette
COMPARED = 12  # maximum number of columns in the table of averages
SHOWN = 8  # maximum number of columns shown for a row
TYPICAL, DOUBTFUL = 3, 8  # rows shown per group, and with the lowest confidence
CLASSES = 30  # maximum number of known classes that are compared with the groups
SETTLED = 0.85
STABLE = ((0.95, "very stable"), (SETTLED, "mostly stable"), (0.7, "only partly stable"), (0.0, "not stable"))
APART = (  # by the mean silhouette (Kaufman and Rousseeuw 1990, p. 88)
    (0.5, "The groups are clearly apart: rows are much nearer to their own group than to the next one."),
    (0.25, "The groups overlap in part: most rows are nearer to their own group, but its edges are not sharp."),
    (-1.0, "The groups run into each other: there are no gaps between them, and where one ends is a matter of choice."),
)
LIMITS = (
    "The method always returns the requested number of groups, even if the table has none; whether the number is right "
    "depends on your question.",
    "All columns have the same weight. Two columns with nearly the same content count twice.",
    "A higher average of a group does not mean that all its rows are higher, and says nothing about causes.",
    "Before you base decisions on these groups, check them on rows that were not in this table.",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """The clusters of a table with at least two rows.

    Attributes:
        labels: (N,) cluster of each row, -1 for rows without a cluster.
        confidence: (N,) confidence in [0, 1]; NaN if the method does not report it.
        others: labels from other starts of the method; empty for a single start.
        requested: requested number of clusters.
        classes: (N,) known classes for comparison, or None.
        given: knowledge about rows that the method was given, such as "the groups of 20 rows"; empty for none.
        names: names of the first clusters by known labels; the others have none.
    """

    labels: NDArray[np.integer]
    confidence: NDArray[np.floating]
    others: Sequence[NDArray[np.integer]]
    requested: int
    classes: NDArray[Any] | None = None
    given: Sequence[str] = ()
    names: Sequence[str] = ()

    def called(self, cluster: int) -> str:
        """Return the number of a cluster, and its name if it has one."""
        return f"{cluster} ({self.names[cluster]})" if 0 <= cluster < len(self.names) else str(cluster)


def clusters_page(contents: Contents, found: Found, command: Command, other_method: str) -> dict[str, Any]:
    """Return introduction, warnings and sections of the page.

    Args:
        contents: the table.
        found: its clusters.
        command: the command line of the result.
        other_method: another method, for the advice if the clusters depend on the start.
    """
    names = [feature.name for feature in contents.features]
    known = profiles(contents.values, found.labels, names, column_of=contents.column_of)
    groups = [profile for profile in known if profile.cluster >= 0]
    alone, lost = int((found.labels < 0).sum()), found.requested - len(groups)
    warnings = [f"{rows_in(alone)} in no group, because no other row is near enough: cluster -1."] if alone else []
    if lost > 0 and not alone:
        warnings.append(f"{found.requested} groups were requested, but {lost} of them have no rows.")
    given = f"The method was given {', and '.join(found.given)}; for the other rows it used only these columns."
    used = given if found.given else "The method used only these columns; it knows nothing about their meaning."
    columns = columns_section(contents)
    share = agreement(found.labels, found.others) if found.others else None
    advice = [
        Item(f"Try {n} groups:", command.changed(n_clusters=str(n)))
        for n in (found.requested - 1, found.requested + 1)
        if 2 <= n <= len(found.labels)
    ]
    if share is not None and float(share.mean()) < SETTLED:
        words = "These groups depend on the random start. Fewer groups or another method may be more stable:"
        advice.append(Item(words, command.changed(method=other_method)))
    sections = [
        _groups(contents, found, groups),
        _map(contents, found, groups),
        *([_averages(contents, found, groups)] if len(groups) > 1 else []),
        _typical(contents, found, groups),
        _reliability(contents, found, share),
        *_known_classes(found, groups),
        columns,
        Section("What to do next", items=advice),
        Section("Limits of this page", items=[*map(Item, LIMITS)]),
    ]
    intro = f"The {rows_in(len(found.labels))} were divided into {len(groups)} groups of similar rows. {used}"
    return {"introduction": [intro], "warnings": warnings, "sections": sections}


def _groups(contents: Contents, found: Found, groups: Sequence[Profile]) -> Section:
    features = kinds(contents)
    same = "no difference in any single column" if len(groups) > 1 else "all rows are in it"
    rows = [
        (found.called(one.cluster), f"{one.rows:,}", percent(one.share), described(one, features) or same)
        for one in groups
    ]
    words = "“Slightly”, “higher” and “much” are relative to the variation of a column over all rows."
    return Section(
        "The groups", tables=[table_of(["group", "rows", "share", "*compared with all other rows"], rows, words)]
    )


def _map(contents: Contents, found: Found, groups: Sequence[Profile]) -> Section:
    """The rows in a plane, and how far the groups are apart."""
    sample = np.arange(len(found.labels))
    if len(sample) > DOTS:
        sample = np.sort(stream(0, "picture of a table").choice(len(sample), DOTS, replace=False))
    values, labels = contents.values[sample], found.labels[sample]
    plane, kept = principal_plane(values, contents.column_of)
    drawn = f" ({len(sample):,} rows, drawn at random)" if len(sample) < len(found.labels) else ""
    about = (
        f"Each mark is a row{drawn}; the numbers are those of the groups. Two dimensions keep {percent(kept)} of the "
    )
    about += "differences between rows, so groups that overlap here may still be separate."
    figure = scatter(plane, labels, [group.cluster for group in groups])
    return Section("A picture", [*_separation(values, labels, contents)], picture=picture(figure), about=about)


def _averages(contents: Contents, found: Found, groups: Sequence[Profile]) -> Section:
    """The averages of the groups in the columns with the largest differences."""
    features = kinds(contents)
    size = pd.DataFrame({one.cluster: {trait.column: abs(trait.difference) for trait in one.traits} for one in groups})
    chosen = size.max(axis=1).sort_values(ascending=False, kind="stable").index[:COMPARED]
    of = [{trait.column: compared(trait, features[trait.column]) for trait in one.traits} for one in groups]
    rows = [(of[0][name].heading, *(phrases[name].inside for phrases in of)) for name in chosen]
    cut = f"; the {len(rows)} of {len(size)} with the largest differences" if len(size) > len(rows) else ""
    about = f"Averages, and for categories the share of rows with each value{cut}."
    headings = ["column", *(f"group {found.called(one.cluster)}" for one in groups)]
    return Section("Averages", tables=[table_of(headings, rows, about)])


def _typical(contents: Contents, found: Found, groups: Sequence[Profile]) -> Section:
    rows = [[found.called(one.cluster), *_row(contents, row)] for one in groups for row in one.typical[:TYPICAL]]
    about = "Closest to their group's average. Name each group; one without a meaning may not be useful."
    return Section("Typical rows", tables=[Table([Column("group", False), *_shown(contents)], rows, about)])


def _reliability(contents: Contents, found: Found, share: NDArray[np.float64] | None) -> Section:
    lines, tables = ["The method was run once, so this page cannot show how much depends on the random start."], []
    if share is not None:
        stable = next(word for least, word in STABLE if float(share.mean()) >= least)
        lines = [
            f"The method was run {len(found.others) + 1} times, each time from another random start. On average, "
            f"{percent(float(share.mean()))} of the rows were in the same group as in this result: the result is "
            f"{stable}. {rows_in(int((share < 0.5).sum()))} changed group in more than half of the other runs."
        ]
    sure = found.confidence[~np.isnan(found.confidence)]
    if len(sure):
        lines.append(
            "The column confidence shows for each row how clearly it belongs to its group, from 0 to 100 %; it does "
            f"not show that the groups are right. {rows_in(int((sure < 0.5).sum()))} below 50 %."
        )
        least = np.argsort(found.confidence, kind="stable")[: min(DOUBTFUL, len(sure))].tolist()  # NaN comes last
        rows = [
            [found.called(int(found.labels[i])), percent(float(found.confidence[i])), *_row(contents, i)] for i in least
        ]
        columns = [Column("group", False), Column("confidence"), *_shown(contents)]
        tables = [Table(columns, rows, "The rows with the lowest confidence.")]
    else:
        lines.append("This method does not report how clearly a row belongs to its group.")
    return Section("How reliable is this?", lines, tables=tables)


def _known_classes(found: Found, groups: Sequence[Profile]) -> list[Section]:
    """The known classes with their rows in each group; nothing without classes, or with too many."""
    if found.classes is None or len(np.unique(found.classes)) > CLASSES:
        return []
    counts = pd.crosstab(found.classes, found.labels)[[group.cluster for group in groups]]
    rows = [
        (str(name), *(f"{count:,}" for count in row)) for name, row in zip(counts.index, counts.values, strict=True)
    ]
    about = f"The method was given {', and '.join(found.given)}." if found.given else "The classes were not used."
    headings = ["class", *(f"group {found.called(group.cluster)}" for group in groups)]
    return [Section("Comparison with known classes", [about], tables=[table_of(headings, rows)])]


def _shown(contents: Contents) -> list[Column]:
    """Columns that identify a row for the reader: its number, unused columns, such as names, then used ones."""
    names, used = contents.file.names, contents.columns
    others = [name for name in names if name not in used][:4]
    kept = {*others, *used[: SHOWN - len(others)]}
    return [Column("row"), *(Column(name, False) for name in names if name in kept)]


def _row(contents: Contents, row: int) -> list[str]:
    """Number of a row in the file, from 1, and the cells of the shown columns."""
    place = int(contents.rows[row])
    cells = [str(contents.file.column(column.name).iloc[place]) for column in _shown(contents)[1:]]
    return [f"{place + 1:,}", *(cell if len(cell) <= 40 else f"{cell[:39]}…" for cell in cells)]


def _separation(values: NDArray[np.floating], labels: NDArray[np.integer], contents: Contents) -> list[str]:
    """The separation of the groups in words; nothing for one group, or as many groups as rows."""
    from sklearn.metrics import silhouette_score

    if not 2 <= len(np.unique(labels)) < len(labels):
        return []
    spread = spreads(values, contents.column_of)
    silhouette = float(silhouette_score(values / np.where(spread > 0, spread, 1.0), labels))
    return [next(sentence for least, sentence in APART if silhouette >= least)]


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
