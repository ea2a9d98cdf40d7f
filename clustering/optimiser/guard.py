"""Acceptance of the steps of a descent, the proximal weight of the next step, and the stopping rules.

A step is accepted if the objective R falls by a fixed share of the decrease that the surrogate predicts. With a large
enough proximal weight every step is accepted (relative smoothness: Bauschke, Bolte and Teboulle 2017).
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum

import torch
from torch import Tensor

_SUFFICIENT_DECREASE = 0.1
"""Share of the predicted decrease that an accepted step must reach. The condition R+ <= R alone would accept
2-cycles."""

_KAPPA_MIN, _KAPPA_MAX = 2.0**-6, 2.0**40


class Status(IntEnum):
    """Why a problem stopped."""

    MAX_ITERATIONS = 0
    CONVERGED = 1
    ROUNDING = 2
    """No step lowers R by more than rounding: converged to machine precision."""
    STEP_FAILED = 3


@dataclass
class Guard:
    """Judges the steps of b problems independently. All tensors are (b,), or () for a single problem.

    Attributes:
        active: bool, whether a problem is still running.
        tolerance: a problem converges if R changes by at most tolerance |R|, or within rounding, from the third step
            on, and if also
        gap_tolerance: its gap is at most gap_tolerance |R|, or within rounding. With tolerance None, problems never
            converge by the change of R.
        kappa: float64, proximal weight of the next step in units of the terms' curvature; None if all are 0.
        guarded: if False, no step is rejected, and the gap is ignored.
        steps: number of judged steps.
        status: int64, the `Status` of problems that stop, 0 for the others.
        ended: whether some problem stops.
    """

    active: Tensor
    tolerance: float | None
    gap_tolerance: float
    kappa: Tensor | None = None
    guarded: bool = True
    steps: int = 0
    status: Tensor = field(init=False)
    ended: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.status = torch.zeros_like(self.active, dtype=torch.int64)

    def judge(self, before: Tensor, after: Tensor, predicted: Tensor, rounding: Tensor) -> Tensor | None:
        """Accept or reject a step, set kappa for the next one, and determine which problems stop.

        Args:
            before, after: R.
            predicted: change of the surrogate, <= 0.
            rounding: bound on the rounding error of R.

        Returns:
            Whether the step of each problem is rejected; None if none is.
        """
        self.steps += 1
        if self.ended:
            self.status, self.ended = torch.zeros_like(self.status), False
        rejected = self._rejected(before, after, predicted, rounding) if self.guarded else None
        if self.tolerance is not None and self.steps > 2:
            small = (after - before).abs() <= torch.maximum(self.tolerance * after.abs(), rounding / 8)
            self._stop(small if rejected is None else small & ~rejected, Status.CONVERGED)
        if rejected is not None and self.kappa is not None:
            self._stop(rejected & (self.kappa > _KAPPA_MAX), Status.STEP_FAILED)
            self._stop(rejected & (-predicted <= rounding), Status.ROUNDING)
        return rejected

    def spare(self, gap: Tensor, objective: Tensor, rounding: Tensor) -> None:
        """Keep problems running whose R changed little but whose gap is large."""
        if self.guarded and self.ended:
            unconverged = gap > torch.maximum(self.gap_tolerance * objective.abs(), rounding / 8)
            self.status = self.status.masked_fill(unconverged & (self.status == Status.CONVERGED), 0)
            self.ended = bool(self.status.any())

    def select(self, problems: Tensor) -> "Guard":
        """The guard of a subset of the problems, given by indices, none of which stops."""
        kappa = None if self.kappa is None else self.kappa[problems]
        return replace(self, active=self.active[problems], kappa=kappa)

    def _rejected(self, before: Tensor, after: Tensor, predicted: Tensor, rounding: Tensor) -> Tensor | None:
        rejected = self.active & ~(after <= before + _SUFFICIENT_DECREASE * predicted + rounding)
        any_rejected = bool(rejected.any())
        if self.kappa is None and any_rejected:
            self.kappa = rejected.double()
        elif self.kappa is not None:
            halved = torch.where(self.kappa > 0, (self.kappa / 2).clamp_min(_KAPPA_MIN), self.kappa)
            kappa = torch.where(after <= before + predicted, halved, self.kappa)
            higher = torch.where(self.kappa > 0, 2 * self.kappa, 1.0)
            self.kappa = torch.where(rejected, higher, kappa) * self.active
        return rejected if any_rejected else None

    def _stop(self, chosen: Tensor, status: Status) -> None:
        chosen = chosen & self.active
        if chosen.any():
            self.status, self.ended = self.status.masked_fill(chosen, int(status)), True
