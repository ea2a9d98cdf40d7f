"""The outcome of a small case of a run: a few numbers that the code of the run gave, and that other code should repeat.

It is the tag `small_case` of exported runs. `runs.stages.small_cases` computes it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SMALL_CASE = "small_case"
"""Tag of a run: the outcome of its small case, as text."""
Numbers = Mapping[str, tuple[float, ...]]
"""Numbers by name."""
RELATIVE = {"objective": 1e-3, "features": 1e-3, "entropy": 2e-3, "probabilities": 2e-3, "soft_error": 1e-2}
"""Names of numbers whose relative differences count, with the largest one that rounding may cause."""
SHARE = 0.02
"""Largest difference of other numbers, most of which are shares, that rounding may cause; relative above 1."""
SMALLEST = 1e-5  # differences below this one are rounding, whatever the numbers are
DIGITS = 7
MOST, LONGEST_NAME, LARGEST = 200, 50, 1e300  # numbers of an outcome; characters of a name; size of a number


@dataclass(frozen=True)
class Outcome:
    """The outcome of a small case.

    Attributes:
        settings: identity of the run without its code (16 hexadecimal digits).
        numbers: the numbers, finite.
    """

    settings: str
    numbers: Numbers

    def text(self) -> str:
        """Return the text of the tag."""
        rounded = {name: [float(f"{value:.{DIGITS}g}") for value in values] for name, values in self.numbers.items()}
        return json.dumps({"settings": self.settings, **rounded}, sort_keys=True, allow_nan=False)

    @classmethod
    def parse(cls, text: str) -> "Outcome":
        """Return the outcome of a text, which may come from a stranger.

        Raises:
            ValueError: it is none, has too many numbers, or one that is not finite.
        """
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{SMALL_CASE} is not JSON: {str(text)[:50]!r}") from error
        if not isinstance(content, dict) or not isinstance(content.get("settings"), str):
            raise ValueError(f"{SMALL_CASE} has no settings: {text[:50]!r}")
        settings = content.pop("settings")
        if sum(len(values) if isinstance(values, list) else MOST + 1 for values in content.values()) > MOST:
            raise ValueError(f"{SMALL_CASE} must have lists of at most {MOST} numbers in total")
        for name, values in content.items():
            if len(name) > LONGEST_NAME or not name.isidentifier() or not all(map(_is_number, values)):
                raise ValueError(f"{SMALL_CASE}: {name[:LONGEST_NAME]!r} must be a word with a list of finite numbers")
        return cls(settings[:16], {name: tuple(map(float, values)) for name, values in content.items()})


def difference(now: Numbers, before: Numbers) -> str:
    """The first number that differs by more than rounding, as in "objective 1.21, not 1.2"; empty if none does."""
    for name in sorted(now.keys() | before.keys()):
        new, old = now.get(name, ()), before.get(name, ())
        if len(new) != len(old):
            return f"{len(new)} numbers of {name}, not {len(old)}"
        for a, b in zip(new, old, strict=True):
            size = max(abs(a), abs(b))
            allowed = RELATIVE[name] * size if name in RELATIVE else SHARE * max(1, size)
            if not abs(a - b) <= max(allowed, SMALLEST):
                return f"{name} {a:.5g}, not {b:.5g}"
    return ""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST  # not so if NaN
