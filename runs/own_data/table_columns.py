"""Summary of the columns of a user's own table: which are used, as what, and why others are not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clustering.datasets.table import Contents

NAMED = 12  # maximum number of columns listed per kind or reason
KINDS = {"numbers": "numbers", "dates": "dates, in days since 1970-01-01", "categories": "categories"}


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table.

    Attributes:
        used: names of the used columns, by their kind.
        unused: names of the other columns, by the reason.
        filled: number of missing values that were filled, by column.
        mistakes: columns that are not used because of a few invalid cells, with the reason.
        dropped: number of rows without a cluster because of missing values.
    """

    used: Mapping[str, list[str]]
    unused: Mapping[str, list[str]]
    filled: Mapping[str, int]
    mistakes: Mapping[str, str]
    dropped: int

    @classmethod
    def of(cls, contents: "Contents") -> "TableColumns":
        """Summarise the contents of a table."""
        used: dict[str, list[str]] = {}
        for name, kind in {feature.column: feature.kind for feature in contents.features}.items():
            used.setdefault(KINDS[kind], []).append(name)
        unused: dict[str, list[str]] = {}
        for name, why in contents.left_out.items():
            unused.setdefault(why, []).append(name)
        mistakes = {name: contents.left_out[name] for name in contents.mistakes}
        return cls(used, unused, contents.filled, mistakes, contents.dropped)

    def say(self, note: Callable[[str], None]) -> None:
        """Print the summary with `note`."""
        note(f"columns used: {_by(self.used)}")
        others = {why: names for why, names in self.unused.items() if why not in self.mistakes.values()}
        if others:
            note(f"columns not used: {_by(others)}")
        for name, why in list(self.mistakes.items())[:NAMED]:
            note(f"warning: column {name!r} is not used: {why}")
        if self.filled:
            note(f"missing values filled: {sum(self.filled.values()):,}, in {named(list(self.filled))}")
        if self.dropped:
            note(f"rows without a cluster because of missing values: {self.dropped:,}")

    def record(self) -> dict[str, Any]:
        """Return the summary as a dictionary for JSON."""
        return {
            "used": {name: kind for kind, names in self.used.items() for name in names},
            "unused": {name: why for why, names in self.unused.items() for name in names},
            "filled": dict(self.filled),
            "dropped_rows": self.dropped,
        }


def named(names: list[str]) -> str:
    """Return the first names in a line, and the number of the others."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(name or "(no name)" for name in names[:NAMED]) + more


def _by(columns: Mapping[str, list[str]]) -> str:
    more = f"; and for {len(columns) - NAMED:,} other reasons" if len(columns) > NAMED else ""
    return "; ".join(f"{named(names)} ({what})" for what, names in list(columns.items())[:NAMED]) + more
