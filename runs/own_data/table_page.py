"""One page about the groups found in a person's own table, for somebody who knows the rows and no statistics."""

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

DOTS = 1_500  # rows in the picture, and in the silhouette, at most
COMPARED = 12  # columns of a group's table, at most
SHOWN = 8  # columns of the file that are shown of a row, at most
DOUBTFUL = 8  # rows that are shown as hardest to place


@dataclass(frozen=True, eq=False)
class Found:
    """What was found in a table, and how.

    Attributes:
        contents: the table.
        labels: (N,) the cluster of each row of the contents, -1 of one that is in none.
        confidence: (N,) how sure it is, in [0, 1], NaN where the method does not say.
        others: labels from other starts of the same method; empty where there was one.
        clusters: how many were asked for.
        method: its name, for people.
        command: what makes these results.
        other_method: what to type for another method.
        next_commands: what to type for other numbers of clusters, by that number.
        output: where the rows with their clusters are.
        classes: (N,) known classes, to be compared with; None where there are none.
        told: what the method was told of rows, as "the groups of 20 rows"; empty where it saw the columns alone.
        names: of the clusters by known labels, from cluster 0; those after them have none.
        facts: what an expert wants to know, by its name.
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
    told: Sequence[str] = ()
    names: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A row as the file has it: its number, counted from 1, and what stands in the columns that are shown."""

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


def table_page(found: Found) -> str:
    """The page, in HTML that asks nothing of any other file or host.

    Args:
        found: at least two rows.
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


def _group(found: Found, place: int, profile: Profile, features: Mapping[str, Kind]) -> Group:
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
    """Columns of the file by which a reader knows a row: first those that are not clustered by, such as names."""
    names = contents.file.names
    others = [name for name in names if name not in contents.columns][:4]
    kept = {*others, *contents.columns[: SHOWN - len(others)]}
    return [name for name in names if name in kept]


def _row(found: Found, row: int) -> Row:
    place = int(found.contents.rows[row])  # in the file
    cells = (str(found.contents.file.column(name).iloc[place]) for name in _shown(found.contents))
    short = tuple(cell if len(cell) <= 40 else f"{cell[:39]}…" for cell in cells)
    return Row(place + 1, short, int(found.labels[row]), float(found.confidence[row]))


def _doubtful(found: Found) -> list[Row]:
    """The rows of least confidence, least first."""
    if np.isnan(found.confidence).all():
        return []
    rows = np.argsort(found.confidence, kind="stable")[:DOUBTFUL]  # NaN comes last
    return [_row(found, int(row)) for row in rows if not np.isnan(found.confidence[row])]


def _sample(rows: int) -> NDArray[np.intp]:
    if rows <= DOTS:
        return np.arange(rows)
    return np.sort(stream(0, "picture of a table").choice(rows, DOTS, replace=False))


def _separation(values: NDArray[np.floating], labels: NDArray[np.integer], column_of: NDArray[np.intp]) -> str:
    """How far the groups are apart, in words; empty where there is one, or as many as rows."""
    from sklearn.metrics import silhouette_score

    if not 2 <= len(np.unique(labels)) < len(labels):
        return ""
    spread = spreads(values, column_of)
    return separation(float(silhouette_score(values / np.where(spread > 0, spread, 1.0), labels)))


def _crossed(found: Found, groups: Sequence[Group]) -> list[tuple[str, list[int]]]:
    """Known classes, with how many of their rows are in each group; empty where none are known."""
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
