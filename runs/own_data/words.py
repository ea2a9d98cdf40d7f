"""Statistics of groups of rows in plain words, for readers without knowledge of statistics."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import Profile, Trait
from clustering.files.cells import date_of
from runs.own_data.table_columns import NAMED as LISTED
from runs.own_data.table_columns import TableColumns, named
from runs.report.sections import Item, Section

SMALL, MEDIUM, LARGE = 0.2, 0.5, 0.8  # standard deviations (Cohen 1988)
NAMED = 4  # maximum number of columns in the description of a group
SAME = 0.005  # relative differences of distances below this are ignored


class Kind(NamedTuple):
    """The kind of a feature, for its description.

    Attributes:
        column: the column of the feature.
        of: "number", "date", "share" for a column with only 0 and 1, or "category" for a value of a text column.
        value: the value whose share is reported, for "share" and "category".
    """

    column: str
    of: Literal["number", "date", "share", "category"] = "number"
    value: str = "1"


class Phrase(NamedTuple):
    """The difference of a group from the other rows in one column.

    Attributes:
        heading: the column, and the value whose share is reported.
        words: the difference in words, such as "much higher".
        inside, outside: mean, or share of a value, in the group and in the other rows.
        line: column and difference together.
    """

    heading: str
    words: str
    inside: str
    outside: str
    line: str


def kinds(contents: Contents) -> dict[str, Kind]:
    """Return the kind of each feature of a table, by its name."""
    by_name = {}
    for j, feature in enumerate(contents.features):
        if feature.kind == "categories":
            by_name[feature.name] = Kind(feature.column, "category", feature.category)
        elif feature.kind == "dates":
            by_name[feature.name] = Kind(feature.column, "date")
        else:
            share = bool(((contents.values[:, j] == 0) | (contents.values[:, j] == 1)).all())
            by_name[feature.name] = Kind(feature.column, "share" if share else "number")
    return by_name


def compared(trait: Trait, kind: Kind) -> Phrase:
    """Describe a group's difference in one column, whose feature has this kind."""
    size, share = abs(trait.difference), kind.of in ("share", "category")
    show = percent if share else date_of if kind.of == "date" else number
    if size < SMALL:
        words = "about the same"
    else:
        extent = "slightly " if size < MEDIUM else "" if size < LARGE else "much "
        more = f"more often {kind.value}" if share else "later" if kind.of == "date" else "higher"
        less = f"less often {kind.value}" if share else "earlier" if kind.of == "date" else "lower"
        words = extent + (more if trait.difference > 0 else less)
    heading = f"{kind.column}: {kind.value}" if kind.of == "category" else kind.column
    line = f"{kind.column} {words}" if share else f"{words} {kind.column}"
    return Phrase(heading, words, show(trait.inside), show(trait.outside), line)


def described(profile: Profile, kinds: Mapping[str, Kind]) -> str:
    """Return the columns in which a group differs most from the other rows, such as "much higher income, lower age"."""
    marked = [trait for trait in profile.traits if abs(trait.difference) >= SMALL]
    clear = [trait for trait in marked if abs(trait.difference) >= MEDIUM] or marked
    return ", ".join(compared(trait, kinds[trait.column]).line for trait in clear[:NAMED])


def number(value: float) -> str:
    """Return a number with three digits, or all digits before the decimal point."""
    if abs(value) >= 9_999.5:
        return f"{value:,.0f}"
    if abs(value) >= 99.5:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"


def of_hundred(share: float) -> str:
    """Return a share as rows of 100; 0 and 100 only if exact, - for NaN."""
    if share != share:
        return "-"
    if 0 < share <= 0.005:
        return "under 1"
    if 0.995 <= share < 1:
        return "over 99"
    return f"{100 * share:.0f}"


def percent(share: float) -> str:
    """Return a share in percent; 0 % and 100 % only if exact."""
    return f"{of_hundred(share)} %"


def rows_in(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def farther(ratio: float) -> str:
    """Return a ratio of distances in words, such as "4 % farther"."""
    change = abs(ratio - 1)
    if ratio == float("inf"):
        return "farther"
    if change < SAME:
        return "as far"
    if ratio >= 3:
        return f"{ratio:.1f} times as far"
    return f"{max(1, round(100 * change))} % {'farther' if ratio > 1 else 'nearer'}"


def weight_name(weight: float) -> str:
    """Return a weight as text for the command line, with four digits unless it is an integer."""
    if weight % 1 == 0 and weight < 1e15:
        return f"{weight:.0f}"
    short = float(f"{weight:.4g}")
    return f"{short:.0f}" if 1000 <= short < 1e15 else f"{short:g}"


def columns_section(contents: Contents) -> Section:
    """Return the section about the use of the columns of a table."""
    columns = TableColumns.of(contents)
    lines = [f"Used as {kind}: {named(names)}." for kind, names in columns.used.items()]
    if columns.filled:
        filled = named([f"{count:,} of {name}" for name, count in columns.filled.items()])
        lines.append(f"Values that were missing and were filled in: {filled}.")
    if columns.dropped:
        lines.append(
            f"{rows_in(columns.dropped)} without a value: in the file without a cluster, and not on this page."
        )
    for why, names in list(columns.unused.items())[:LISTED]:
        mend = ", and worth mending" if why in columns.mistakes.values() else ""
        lines.append(f"Not used{mend}: {named(names)} ({why}).")
    ask = Item("To use other columns, name all that are to be used:", "columns=a,b,c")
    return Section("The columns", items=[*map(Item, lines), ask])
