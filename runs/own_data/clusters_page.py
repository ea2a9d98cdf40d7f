"""The page about the clusters of a user's own table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from clustering.evaluation.profiles import Profile, agreement, principal_plane, profiles, spreads
from clustering.foundation.streams import stream
from runs.own_data.page import TablePage
from runs.own_data.plain_words import (
    SETTLED,
    Phrase,
    compared,
    described,
    in_a_line,
    kinds,
    percent,
    separation,
    stability,
)
from runs.own_data.scatter import mark, scatter

DOTS = 1_500  # maximum number of rows in the plot and for the silhouette
COMPARED = 12  # maximum number of columns in a group's table
SHOWN = 8  # maximum number of columns shown for a row
DOUBTFUL = 8  # number of rows shown with the lowest confidence
CLASSES = 30  # maximum number of known classes that are compared with the groups


class Row(NamedTuple):
    """A row of the file: its number from 1, and the cells of the shown columns."""

    number: int
    cells: tuple[str, ...]
    cluster: int
    confidence: float


class Group(NamedTuple):
    """One cluster on the page."""

    cluster: int
    profile: Profile
    mark: Markup
    line: str
    phrases: Sequence[Phrase]
    compared: Sequence[Phrase]
    typical: Sequence[Row]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClustersPage(TablePage):
    """The page about the clusters of a table with at least two rows.

    Attributes:
        labels: (N,) cluster of each row, -1 for rows without a cluster.
        confidence: (N,) confidence in [0, 1]; NaN if the method does not report it.
        others: labels from other starts of the method; empty for a single start.
        other_method: another method, for the advice if the clusters depend on the start.
        classes: (N,) known classes for comparison, or None.
        given: knowledge about rows that the method was given, such as "the groups of 20 rows"; empty if it used only
            the columns.
        names: names of the first clusters by known labels; the others have none.
    """

    template: ClassVar[str] = "clusters_page.html"

    labels: NDArray[np.integer]
    confidence: NDArray[np.floating]
    others: Sequence[NDArray[np.integer]]
    other_method: str
    classes: NDArray[Any] | None = None
    given: Sequence[str] = ()
    names: Sequence[str] = ()

    def content(self) -> dict[str, Any]:
        values, column_of = self.contents.values, self.contents.column_of
        groups = self._groups()
        order = {group.cluster: place for place, group in enumerate(groups)}
        sample = _sample(len(self.labels))
        plane, kept = principal_plane(values[sample], column_of)
        places = np.array([order.get(int(label), len(groups)) for label in self.labels[sample]])
        alt = ", ".join(f"group {group.cluster} with {group.profile.rows:,}" for group in groups)
        same = agreement(self.labels, self.others) if self.others else None
        sure = self.confidence[~np.isnan(self.confidence)]
        least_sure = np.argsort(self.confidence, kind="stable")[: min(DOUBTFUL, len(sure))]  # NaN comes last
        return {
            **super().content(),
            "groups": groups,
            "lost": self.clusters - len(groups),
            "shown": self._shown(),
            "alone": int((self.labels < 0).sum()),
            "picture": scatter(plane, places, [*map(str, order), ""], f"The rows as marks in a plane: {alt}"),
            "dots": len(sample),
            "kept": percent(kept),
            "separation": _separation(values[sample], self.labels[sample], column_of),
            "same": None if same is None else percent(float(same.mean())),
            "stable": None if same is None else stability(float(same.mean())),
            "depends_on_start": same is not None and float(same.mean()) < SETTLED,
            "moving": 0 if same is None else int((same < 0.5).sum()),
            "unsure": int((sure < 0.5).sum()),
            "has_confidence": len(sure) > 0,
            "doubtful": [self._row(row) for row in least_sure.tolist()],
            "crossed": self._crossed(groups),
            "width": len(self.contents.features),
            "named": dict(enumerate(self.names)),
            "next_numbers": [n for n in (self.clusters - 1, self.clusters + 1) if 2 <= n <= len(self.labels)],
        }

    def _groups(self) -> list[Group]:
        """Return the clusters, by descending size."""
        contents, features = self.contents, kinds(self.contents)
        names = [feature.name for feature in contents.features]
        known = profiles(contents.values, self.labels, names, column_of=contents.column_of)
        groups = []
        for place, profile in enumerate(profile for profile in known if profile.cluster >= 0):
            phrases = described(profile, features)
            differences = [compared(trait, features[trait.column]) for trait in profile.traits[:COMPARED]]
            typical = [self._row(row) for row in profile.typical]
            groups.append(
                Group(profile.cluster, profile, mark(place), in_a_line(phrases), phrases, differences, typical)
            )
        return groups

    def _shown(self) -> list[str]:
        """Return columns that identify a row for the reader: first unused columns, such as names, then used ones."""
        names, used = self.contents.file.names, self.contents.columns
        others = [name for name in names if name not in used][:4]
        kept = {*others, *used[: SHOWN - len(others)]}
        return [name for name in names if name in kept]

    def _row(self, row: int) -> Row:
        place = int(self.contents.rows[row])  # in the file
        cells = (str(self.contents.file.column(name).iloc[place]) for name in self._shown())
        short = tuple(cell if len(cell) <= 40 else f"{cell[:39]}…" for cell in cells)
        return Row(place + 1, short, int(self.labels[row]), float(self.confidence[row]))

    def _crossed(self, groups: Sequence[Group]) -> list[tuple[str, list[int]]]:
        """Return the known classes with their rows in each group; empty without classes, or with too many."""
        if self.classes is None or len(np.unique(self.classes)) > CLASSES:
            return []
        counts = pd.crosstab(self.classes, self.labels)[[group.cluster for group in groups]]
        return [(str(name), row.tolist()) for name, row in zip(counts.index, counts.to_numpy(), strict=True)]


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
