"""What statistics say of groups of rows, in words for people who do not know statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clustering.datasets.table import Contents
from clustering.evaluation.profiles import Profile, Trait
from clustering.files.cells import date_of

SMALL, MEDIUM, LARGE = 0.2, 0.5, 0.8  # standard deviations (Cohen 1988)
NAMED = 4  # columns that a group is described by, at most
SETTLED = 0.85
STABLE = ((0.95, "very stable"), (SETTLED, "mostly stable"), (0.7, "only partly stable"), (0.0, "not stable"))
APART = (  # by the mean silhouette (Kaufman and Rousseeuw 1990, p. 88)
    (0.5, "The groups are clearly apart: rows are much nearer to their own group than to the next one."),
    (0.25, "The groups overlap in part: most rows are nearer to their own group, but its edges are not sharp."),
    (-1.0, "The groups run into each other: there are no gaps between them, and where one ends is a matter of choice."),
)


@dataclass(frozen=True)
class Kind:
    """What a number of each row is, to a reader: a number, a date, or whether the row has a value of a column.

    Attributes:
        column: its name.
        of: "share" of a column that has only 0 and 1, "category" of one with words.
        value: what a share is the share of.
    """

    column: str
    of: Literal["number", "date", "share", "category"] = "number"
    value: str = "1"


def kinds(contents: Contents) -> dict[str, Kind]:
    """What each number of a table's rows is, by its name."""
    found = {}
    for j, feature in enumerate(contents.features):
        if feature.kind == "categories":
            found[feature.name] = Kind(feature.column, "category", feature.category)
        elif feature.kind == "dates":
            found[feature.name] = Kind(feature.column, "date")
        else:
            share = bool(((contents.values[:, j] == 0) | (contents.values[:, j] == 1)).all())
            found[feature.name] = Kind(feature.column, "share" if share else "number")
    return found


@dataclass(frozen=True)
class Phrase:
    """How a group differs in one column: `words` such as "much higher", then the averages, or the shares of a value.

    Attributes:
        heading: the column, and the value that shares are of.
    """

    column: str
    words: str
    inside: str
    outside: str
    heading: str
    share: bool


def number(value: float) -> str:
    """Three digits, or all before the point."""
    if abs(value) >= 9_999.5:
        return f"{value:,.0f}"
    if abs(value) >= 99.5:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"


def percent(share: float) -> str:
    """A share in percent; 0 % and 100 % only where it is so."""
    if 0 < share <= 0.005:
        return "under 1 %"
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %"


def compared(trait: Trait, kind: Kind | None = None) -> Phrase:
    """One column of a group in words.

    Args:
        kind: None: a number by the trait's name.
    """
    kind = kind or Kind(trait.column)
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


def described(profile: Profile, kinds: Mapping[str, Kind] | None = None) -> list[Phrase]:
    """The columns that mark a group out, the clearest first; none where it is in all of them like the others.

    Args:
        kinds: what each trait is, by its name; None: all are numbers.
    """
    marked = [trait for trait in profile.traits if abs(trait.difference) >= SMALL]
    clear = [trait for trait in marked if abs(trait.difference) >= MEDIUM] or marked
    return [compared(trait, (kinds or {}).get(trait.column)) for trait in clear[:NAMED]]


def in_a_line(phrases: Sequence[Phrase]) -> str:
    """Such as "much higher income, lower age"."""
    return ", ".join(
        f"{phrase.column} {phrase.words}" if phrase.share else f"{phrase.words} {phrase.column}" for phrase in phrases
    )


def stability(share: float) -> str:
    """A word for how many rows, in [0, 1], end in the same group from another start."""
    return next(word for least, word in STABLE if share >= least)


def separation(silhouette: float) -> str:
    """A sentence for the mean silhouette, in [-1, 1]."""
    return next(sentence for least, sentence in APART if silhouette >= least)
