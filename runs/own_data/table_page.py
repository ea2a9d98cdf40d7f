"""The page about the clusters of a user's own table, for readers without knowledge of statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import Profile, agreement, principal_plane, profiles, spreads
from clustering.foundation.streams import stream
from runs.own_data.group_words import (
    SETTLED,
    Kind,
    Phrase,
    compared,
    described,
    in_a_line,
    kinds,
    percent,
    separation,
    stability,
)
from runs.own_data.scatter import Mark, scatter
from runs.own_data.table_columns import TableColumns
from runs.report.rendering import environment

DOTS = 1_500  # maximum number of rows in the plot and for the silhouette
COMPARED = 12  # maximum number of columns in a group's table
SHOWN = 8  # maximum number of columns shown for a row
DOUBTFUL = 8  # number of rows shown with the lowest confidence


@dataclass(frozen=True, eq=False)
class PageContent:
    """The clustering of a table, for the page.

    Attributes:
        contents: the table.
        labels: (N,) cluster of each row, -1 for rows without a cluster.
        confidence: (N,) confidence in [0, 1]; NaN if the method does not report it.
        others: labels from other starts of the method; empty for a single start.
        clusters: requested number of clusters.
        method: displayed name of the method.
        command: command line of this result.
        other_method: command line for another method.
        next_commands: command lines for other numbers of clusters.
        output: path of the rows with their clusters.
        classes: (N,) known classes for comparison, or None.
        given: knowledge about rows that the method was given, such as "the groups of 20 rows"; empty if it used only
            the columns.
        names: names of the first clusters by known labels; the others have none.
        facts: technical details by name.
    """

    contents: Contents
    labels: NDArray[np.integer]
    confidence: NDArray[np.floating]
    others: Sequence[NDArray[np.integer]]
    clusters: int
    method: str
    command: str
    other_method: str
    next_commands: Mapping[int, str]
    output: str
    classes: NDArray[Any] | None = None
    given: Sequence[str] = ()
    names: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A row of the file: its number from 1, and the cells of the shown columns."""

    number: int
    cells: tuple[str, ...]
    cluster: int
    confidence: float


@dataclass(frozen=True)
class Group:
    """One group on the page."""

    profile: Profile
    mark: Markup
    line: str
    phrases: tuple[Phrase, ...]
    compared: tuple[Phrase, ...]
    typical: tuple[Row, ...]

    @property
    def cluster(self) -> int:
        return self.profile.cluster


def table_page(found: PageContent) -> str:
    """Render the page as self-contained HTML.

    Args:
        found: the clustering, with at least two rows.
    """
    contents, labels = found.contents, found.labels
    values, column_of = contents.values, contents.column_of
    names = [feature.name for feature in contents.features]
    known = [profile for profile in profiles(values, labels, names, column_of=column_of) if profile.cluster >= 0]
    features = kinds(contents)
    groups = [_group(found, place, profile, features) for place, profile in enumerate(known)]
    order = {group.cluster: place for place, group in enumerate(groups)}
    sample = _sample(len(labels))
    plane, kept = principal_plane(values[sample], column_of)
    places = np.array([order.get(int(label), len(groups)) for label in labels[sample]])
    same = agreement(labels, found.others) if found.others else None
    sure = found.confidence[~np.isnan(found.confidence)]
    return (
        environment()
        .get_template("table.html")
        .render(
            found=found,
            name=found.contents.file.path.name,
            groups=groups,
            lost=found.clusters - len(groups),
            columns=found.contents.columns,
            shown=_shown(found.contents),
            alone=int((labels < 0).sum()),
            picture=scatter(plane, places, [*(str(group.cluster) for group in groups), ""], _alt(groups)),
            dots=len(sample),
            kept=percent(kept),
            separation=_separation(values[sample], labels[sample], column_of),
            same=None if same is None else percent(float(same.mean())),
            stable=None if same is None else stability(float(same.mean())),
            hangs=same is not None and float(same.mean()) < SETTLED,
            moving=0 if same is None else int((same < 0.5).sum()),
            unsure=int((sure < 0.5).sum()),
            says=len(sure) > 0,
            doubtful=_doubtful(found),
            crossed=_crossed(found, groups),
            table_columns=TableColumns.of(contents),
            width=len(names),
            percent=percent,
            named=dict(enumerate(found.names)),
        )
    )


def _group(found: PageContent, place: int, profile: Profile, features: Mapping[str, Kind]) -> Group:
    phrases = described(profile, features)
    return Group(
        profile,
        Mark.of(place).svg(),
        in_a_line(phrases),
        tuple(phrases),
        tuple(compared(trait, features[trait.column]) for trait in profile.traits[:COMPARED]),
        tuple(_row(found, row) for row in profile.typical),
    )


def _shown(contents: Contents) -> list[str]:
    """Return columns that identify a row for the reader: first unused columns, such as names, then used ones."""
    names = contents.file.names
    others = [name for name in names if name not in contents.columns][:4]
    kept = {*others, *contents.columns[: SHOWN - len(others)]}
    return [name for name in names if name in kept]


def _row(found: PageContent, row: int) -> Row:
    place = int(found.contents.rows[row])  # in the file
    cells = (str(found.contents.file.column(name).iloc[place]) for name in _shown(found.contents))
    short = tuple(cell if len(cell) <= 40 else f"{cell[:39]}…" for cell in cells)
    return Row(place + 1, short, int(found.labels[row]), float(found.confidence[row]))


def _doubtful(found: PageContent) -> list[Row]:
    """Return the rows with the lowest confidence, in ascending order."""
    if np.isnan(found.confidence).all():
        return []
    rows = np.argsort(found.confidence, kind="stable")[:DOUBTFUL]  # NaN comes last
    return [_row(found, int(row)) for row in rows if not np.isnan(found.confidence[row])]


def _sample(rows: int) -> NDArray[np.intp]:
    if rows <= DOTS:
        return np.arange(rows)
    return np.sort(stream(0, "picture of a table").choice(rows, DOTS, replace=False))


def _separation(values: NDArray[np.floating], labels: NDArray[np.integer], column_of: NDArray[np.intp]) -> str:
    """Return the separation of the groups in words; empty for one group, or as many groups as rows."""
    from sklearn.metrics import silhouette_score

    if not 2 <= len(np.unique(labels)) < len(labels):
        return ""
    spread = spreads(values, column_of)
    return separation(float(silhouette_score(values / np.where(spread > 0, spread, 1.0), labels)))


def _crossed(found: PageContent, groups: Sequence[Group]) -> list[tuple[str, list[int]]]:
    """Return the known classes with the number of their rows in each group; empty without classes."""
    if found.classes is None:
        return []
    names = list(dict.fromkeys(np.sort(found.classes).tolist()))
    if len(names) > 30:
        return []
    return [
        (str(name), [int(((found.classes == name) & (found.labels == group.cluster)).sum()) for group in groups])
        for name in names
    ]


def _alt(groups: Sequence[Group]) -> str:
    return "The rows as marks in a plane: " + ", ".join(
        f"group {group.cluster} with {group.profile.rows:,}" for group in groups
    )
