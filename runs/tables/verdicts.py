"""Verdicts on a cell that is compared with a printed number (`runs.tables.judging` decides them), and on a claim
(`runs.tables.claims`)."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from runs.tables.papers.published import Cause

VerdictStatus = Literal[
    "reproduced", "above", "below", "other protocol", "not run", "cannot run here", "no target", "not printed"
]
STATUSES: tuple[VerdictStatus, ...] = get_args(VerdictStatus)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a cell, in the printed unit.

    Attributes:
        status: reproduced, above or below (as numbers, whichever is better); other protocol: the result has another
            setting; not run: it can be run, even if the paper leaves it empty; cannot run here; no target: the printed
            number cannot be compared with; not printed: it was run, and the paper leaves it empty.
        why: the keys that differ, what is missing, or the interval that decided.
        difference: result minus target; NaN without a result or a target.
        cause: of above or below, why the result differs (`runs/published/causes.yaml`); None if it was not looked for.
    """

    status: VerdictStatus
    why: str = ""
    difference: float = math.nan
    cause: Cause | None = None


ClaimStatus = Literal["holds", "tie", "fails", "not run"]


@dataclass(frozen=True)
class Finding:
    """The status of a claim in one setting.

    Attributes:
        claim: the statement.
        source: where it is made.
        setting: the column, columns or data set that it was checked on; empty where it was not run.
        status: holds, tie or fails; not run where the table has the methods but not their runs.
        evidence: the numbers.
    """

    claim: str
    source: str
    setting: str
    status: ClaimStatus
    evidence: str


@dataclass(frozen=True)
class Tolerance:
    """Largest deviation that still counts as reproduced: an absolute difference in the printed unit, or a factor.

    Attributes:
        alone: whether intervals are left out, because the print has the same queries.
    """

    absolute: float = 0.0
    factor: float = 1.0
    alone: bool = False

    def holds(self, value: float, target: float) -> bool:
        """Whether the two differ by no more than the tolerance."""
        if abs(value - target) <= self.absolute:
            return True
        low, high = sorted((value, target))
        return self.factor > 1 and low > 0 and high <= self.factor * low
