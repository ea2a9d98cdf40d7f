"""What statistics say of groups of rows, in words for people who do not know statistics."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from clustering.profiles import Profile, Trait

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
class Phrase:
    """How a group differs in one column: `words` such as "much higher", then the averages."""

    column: str
    words: str
    inside: str
    outside: str


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


def compared(trait: Trait, *, share: bool = False) -> Phrase:
    """One column of a group in words.

    Args:
        share: the column has only 0 and 1, so that its average is how many have a 1.
    """
    size = abs(trait.difference)
    show = percent if share else number
    if size < SMALL:
        words = "about the same"
    else:
        extent = "slightly " if size < MEDIUM else "" if size < LARGE else "much "
        high, low = ("more often 1", "less often 1") if share else ("higher", "lower")
        words = extent + (high if trait.difference > 0 else low)
    return Phrase(trait.column, words, show(trait.inside), show(trait.outside))


def described(profile: Profile, shares: Collection[str] = ()) -> list[Phrase]:
    """The columns that mark a group out, the clearest first; none where it is in all of them like the others.

    Args:
        shares: columns that have only 0 and 1.
    """
    marked = [trait for trait in profile.traits if abs(trait.difference) >= SMALL]
    clear = [trait for trait in marked if abs(trait.difference) >= MEDIUM] or marked
    return [compared(trait, share=trait.column in shares) for trait in clear[:NAMED]]


def in_a_line(phrases: Sequence[Phrase]) -> str:
    """Such as "much higher income, lower age"."""
    return ", ".join(
        f"{phrase.column} {phrase.words}" if "often" in phrase.words else f"{phrase.words} {phrase.column}"
        for phrase in phrases
    )


def stability(share: float) -> str:
    """A word for how many rows, in [0, 1], end in the same group from another start."""
    return next(word for least, word in STABLE if share >= least)


def separation(silhouette: float) -> str:
    """A sentence for the mean silhouette, in [-1, 1]."""
    return next(sentence for least, sentence in APART if silhouette >= least)
