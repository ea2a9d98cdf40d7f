"""What may be said of a cell that is held against a print: `runs.tables.judging` says it."""

import math
from dataclasses import dataclass
from typing import Literal

Status = Literal[
    "reproduced", "above", "below", "other protocol", "not run", "cannot run here", "no target", "not printed"
]
STATUSES: tuple[Status, ...] = (
    "reproduced",
    "above",
    "below",
    "other protocol",
    "not run",
    "cannot run here",
    "no target",
    "not printed",
)


@dataclass(frozen=True)
class Verdict:
    """What became of a cell, in the printed unit.

    Attributes:
        status: reproduced, above or below (as numbers, whichever is better); other protocol: what was found is of
            another setting; not run; cannot run here; no target: the printed number is not one to be compared with;
            not printed: the paper leaves the cell empty.
        why: the keys that differ, what is missing, or by which interval it was judged.
        difference: found less target; NaN where nothing was found or there is no target.
    """

    status: Status
    why: str = ""
    difference: float = math.nan


@dataclass(frozen=True)
class Tolerance:
    """How far off still counts as reproduced: an absolute difference in the printed unit, or a factor."""

    absolute: float = 0.0
    factor: float = 1.0

    def holds(self, found: float, target: float) -> bool:
        """Whether the two are that near to each other."""
        if abs(found - target) <= self.absolute:
            return True
        low, high = sorted((found, target))
        return self.factor > 1 and low > 0 and high <= self.factor * low
