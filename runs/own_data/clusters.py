"""The page about the clusters of a user's own table: sizes, averages, a picture, typical rows, and their stability."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import Profile, agreement, principal_plane, profiles
from clustering.files.cells import date_of
from clustering.foundation.streams import stream
from runs.figures.style import new_figure, series, styled
from runs.own_data.page import Command, columns_section, number, of_frame, percent, picture
from runs.report.sections import Item, Section, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 1_500  # maximum number of rows in the plot
COMPARED = 20  # maximum number of columns in the table of averages
SHOWN = 8  # maximum number of columns shown for a row
CLASSES = 30  # maximum number of known classes that are compared with the groups
SETTLED = 0.85  # share of rows that keep their group from start to start, from which groups count as stable


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """The clusters of a table with at least two rows.

    Attributes:
        labels: (N,) cluster of each row, -1 for rows without a cluster.
        others: labels from other starts of the method; empty for a single start.
        requested: requested number of clusters.
        classes: (N,) known classes for comparison, or None.
        given: knowledge about rows that the method was given, such as "the groups of 20 rows"; empty for none.
        names: names of the first clusters by known labels; the others have none.
    """

    labels: NDArray[np.integer]
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
    known = profiles(
        contents.values, found.labels, [one.name for one in contents.features], column_of=contents.column_of
    )
    groups = [profile for profile in known if profile.cluster >= 0]
    alone, lost = int((found.labels < 0).sum()), found.requested - len(groups)
    warnings = [f"{alone:,} rows are in no group (cluster -1): no other row is near enough."] if alone else []
    if lost > 0 and not alone:
        warnings.append(f"{found.requested} groups were requested, but {lost} of them have no rows.")
    advice = [
        Item(f"Try {n} groups:", command.changed(n_clusters=str(n)))
        for n in (found.requested - 1, found.requested + 1)
        if 2 <= n <= len(found.labels)
    ]
    stable = "The method was run once, so this page cannot show how much depends on the random start."
    if found.others:
        share = agreement(found.labels, found.others)
        stable = (
            f"The method was run {len(found.others) + 1} times, each time from another random start. On average "
            f"{percent(float(share.mean()))} of the rows were in the same group as in this result."
        )
        if share.mean() < SETTLED:
            advice.append(Item("The groups depend on the start; another method:", command.changed(method=other_method)))
    given = f" The method was given {', and '.join(found.given)}." if found.given else ""
    sizes = {"group": [found.called(one.cluster) for one in groups], "rows": [f"{one.rows:,}" for one in groups]}
    sizes["share"] = [percent(one.share) for one in groups]
    sections = [
        Section("The groups", tables=[of_frame(pd.DataFrame(sizes)), _averages(contents, found, groups)]),
        _map(contents, found, groups),
        Section("Typical rows", tables=[_typical(contents, found, groups)]),
        *_known_classes(found, groups),
        columns_section(contents),
        Section("How reliable is this?", [f"{stable} {LIMITS}"], advice),
    ]
    intro = f"The {len(found.labels):,} rows were divided into {len(groups)} groups of similar rows.{given}"
    return {"introduction": [intro], "warnings": warnings, "sections": sections}


LIMITS = (
    "A method returns the requested number of groups even if the table has none. All columns have the same weight. "
    "Check the groups on rows that were not in this table before you rely on them."
)


def _averages(contents: Contents, found: Found, groups: Sequence[Profile]) -> Table:
    """The means of the groups, in the columns with the largest differences."""
    kinds = {one.name: one for one in contents.features}
    values = pd.DataFrame({one.cluster: {trait.column: trait.inside for trait in one.traits} for one in groups})
    size = pd.DataFrame({one.cluster: {trait.column: abs(trait.difference) for trait in one.traits} for one in groups})
    rows = []
    for name in size.max(axis=1).sort_values(ascending=False, kind="stable").index[:COMPARED]:
        kind = kinds[name].kind
        show = percent if kind == "categories" else date_of if kind == "dates" else number
        heading = f"{kinds[name].column}: {kinds[name].category}" if kind == "categories" else kinds[name].column
        rows.append([heading, *(show(float(value)) for value in values.loc[name])])
    frame = pd.DataFrame(rows, columns=["column", *(f"group {found.called(one.cluster)}" for one in groups)])
    cut = f"; {len(rows)} of {len(size)}" if len(size) > len(rows) else ""
    about = f"Averages; of a category, the share of rows that have it. The largest differences come first{cut}."
    return of_frame(frame, about)


def _map(contents: Contents, found: Found, groups: Sequence[Profile]) -> Section:
    """The rows in the plane that keeps most of their differences."""
    sample = np.arange(len(found.labels))
    if len(sample) > DOTS:
        sample = np.sort(stream(0, "picture of a table").choice(len(sample), DOTS, replace=False))
    plane, kept = principal_plane(contents.values[sample], contents.column_of)
    drawn = f" ({len(sample):,} rows, drawn at random)" if len(sample) < len(found.labels) else ""
    about = (
        f"Each mark is a row{drawn}; the numbers are those of the groups. Two dimensions keep {percent(kept)} of the "
        "differences between rows, so groups that overlap here may still be separate."
    )
    figure = scatter(plane, found.labels[sample], [group.cluster for group in groups])
    return Section("A picture", picture=picture(figure), about=about)


def _typical(contents: Contents, found: Found, groups: Sequence[Profile]) -> Table:
    """The rows closest to the average of their group, with columns that identify them: unused ones, then used ones."""
    names, used = contents.file.names, contents.columns
    others = [name for name in names if name not in used][:4]
    kept = [name for name in names if name in {*others, *used[: SHOWN - len(others)]}]
    rows = []
    for one in groups:
        for row in one.typical:
            place = int(contents.rows[row])
            cells = [str(contents.file.column(name).iloc[place]) for name in kept]
            rows.append([found.called(one.cluster), f"{place + 1:,}", *(_cut(cell) for cell in cells)])
    frame = pd.DataFrame(rows, columns=["group", "row", *kept])
    return of_frame(frame, "Closest to the average of their group; rows are counted from 1.", text=kept)


def _cut(cell: str) -> str:
    return cell if len(cell) <= 40 else f"{cell[:39]}…"


def _known_classes(found: Found, groups: Sequence[Profile]) -> list[Section]:
    """The known classes with their rows in each group; nothing without classes, or with too many."""
    if found.classes is None or len(np.unique(found.classes)) > CLASSES:
        return []
    counts = pd.crosstab(found.classes, found.labels)[[group.cluster for group in groups]]
    counts.columns = pd.Index([f"group {found.called(group.cluster)}" for group in groups])
    return [Section("Comparison with known classes", tables=[of_frame(counts.rename_axis("class").reset_index())])]


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
