"""Statistics of groups of rows in plain words, for readers without knowledge of statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import Profile, Trait
from clustering.files.cells import date_of

SMALL, MEDIUM, LARGE = 0.2, 0.5, 0.8  # standard deviations (Cohen 1988)
NAMED = 4  # maximum number of columns in the description of a group
SETTLED = 0.85
SAME = 0.005  # relative differences of distances below this are ignored
STABLE = ((0.95, "very stable"), (SETTLED, "mostly stable"), (0.7, "only partly stable"), (0.0, "not stable"))
APART = (  # by the mean silhouette (Kaufman and Rousseeuw 1990, p. 88)
    (0.5, "The groups are clearly apart: rows are much nearer to their own group than to the next one."),
    (0.25, "The groups overlap in part: most rows are nearer to their own group, but its edges are not sharp."),
    (-1.0, "The groups run into each other: there are no gaps between them, and where one ends is a matter of choice."),
)


@dataclass(frozen=True)
class Kind:
    """The kind of a feature, for its description.

    Attributes:
        column: the column of the feature.
        of: "number", "date", "share" for a column with only 0 and 1, or "category" for a value of a text column.
        value: the value whose share is reported, for "share" and "category".
    """

    column: str
    of: Literal["number", "date", "share", "category"] = "number"
    value: str = "1"


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


@dataclass(frozen=True)
class Phrase:
    """The difference of a group from the other rows in one column.

    Attributes:
        column: the column.
        words: the difference in words, such as "much higher".
        inside, outside: mean, or share of a value, in the group and in the other rows.
        heading: the column, and the value whose share is reported.
        share: whether shares are reported rather than means.
    """

    column: str
    words: str
    inside: str
    outside: str
    heading: str
    share: bool


def number(value: float) -> str:
    """Return a number with three digits, or all digits before the decimal point."""
    if abs(value) >= 9_999.5:
        return f"{value:,.0f}"
    if abs(value) >= 99.5:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"


def of_hundred(share: float) -> str:
    """Return a share as rows of 100; 0 and 100 only if exact."""
    if 0 < share <= 0.005:
        return "under 1"
    if 0.995 <= share < 1:
        return "over 99"
    return f"{100 * share:.0f}"


def percent(share: float) -> str:
    """Return a share in percent; 0 % and 100 % only if exact."""
    return f"{of_hundred(share)} %"


def compared(trait: Trait, kind: Kind) -> Phrase:
    """Describe a group's difference in one column, whose feature has this kind."""
    size = abs(trait.difference)
    share = kind.of in ("share", "category")
    show = percent if share else date_of if kind.of == "date" else number
    if size < SMALL:
        words = "about the same"
    else:
        extent = "slightly " if size < MEDIUM else "" if size < LARGE else "much "
        more = f"more often {kind.value}" if share else "later" if kind.of == "date" else "higher"
        less = f"less often {kind.value}" if share else "earlier" if kind.of == "date" else "lower"
        words = extent + (more if trait.difference > 0 else less)
    heading = f"{kind.column}: {kind.value}" if kind.of == "category" else kind.column
    return Phrase(kind.column, words, show(trait.inside), show(trait.outside), heading, share)


def described(profile: Profile, kinds: Mapping[str, Kind]) -> list[Phrase]:
    """Return the columns in which a group differs from the other rows, the largest difference first.

    Args:
        profile: the profile of the group.
        kinds: kind of each feature by name.
    """
    marked = [trait for trait in profile.traits if abs(trait.difference) >= SMALL]
    clear = [trait for trait in marked if abs(trait.difference) >= MEDIUM] or marked
    return [compared(trait, kinds[trait.column]) for trait in clear[:NAMED]]


def in_a_line(phrases: Sequence[Phrase]) -> str:
    """Return the phrases in one line, such as "much higher income, lower age"."""
    return ", ".join(
        f"{phrase.column} {phrase.words}" if phrase.share else f"{phrase.words} {phrase.column}" for phrase in phrases
    )


def stability(share: float) -> str:
    """Return the stability in words. `share`: fraction in [0, 1] of rows in the same group after another start."""
    return next(word for least, word in STABLE if share >= least)


def separation(silhouette: float) -> str:
    """Return a sentence for the mean silhouette, in [-1, 1]."""
    return next(sentence for least, sentence in APART if silhouette >= least)


def between(least: float, most: float) -> str:
    """Return a range of shares as rows of 100."""
    low, high = f"{100 * least:.0f}", f"{100 * most:.0f}"
    return low if low == high else f"{low} to {high}"


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
