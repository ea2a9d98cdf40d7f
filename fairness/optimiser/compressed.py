"""The step of `clustering.optimiser.descent` with assignments kept as C + C K numbers, for points that are too many to
store them anew at every step.

With fixed costs a, prices that are the same for all points of a cell, and proximal weights tau likewise, t steps from
log S0 lead to

    log s_pk = log s0_pk - T_c a_pk - B_ck - log Z_p,       T_c = sum_t 1 / tau_tc,   B_ck = sum_t price_tck / tau_tc,

so that T (C,) and B (C, K) are all that a step changes and all that is put back where it is rejected. A step is one
sweep over the points, which adds up counts, costs and log Z by cells. It is the same step, and the same rule that
accepts it, as that of `descend` at temperature 0 with the term `fairness.optimiser.terms.GroupProportions`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.optimiser.descent import KAPPA_MAX, Status, accepted, far_from_stationary, next_kappa, unchanged
from clustering.optimiser.objective import allowance
from fairness.optimiser.penalty import Penalty, Reading


class Totals(NamedTuple):
    """Sums over points, by cell; float64 on the CPU. Of points in several places, they add up.

    Attributes:
        counts: (C, K) sum of s_pk.
        lowest: (C,) sum of min_k a_pk.
        excess: (C,) sum of s_p . a_p beyond that.
        log_norms: (C,) sum of log Z_p, of costs less each point's lowest.
        least: (C,) sum of min_k (a_pk + price_k), 0 where no prices were given.
    """

    counts: Tensor
    lowest: Tensor
    excess: Tensor
    log_norms: Tensor
    least: Tensor

    @property
    def cost(self) -> Tensor:
        """() <S, a>."""
        return self.lowest.sum() + self.excess.sum()

    def __add__(self, other: "Totals") -> "Totals":  # type: ignore[override]
        return Totals(*(mine + its for mine, its in zip(self, other, strict=True)))


Sweep = Callable[[Tensor, Tensor, Tensor | None], Totals]
"""Totals at T (C,) and B (C, K), `least` of prices (C, K) where these are given."""


class Settled(NamedTuple):
    """Where the steps ended.

    Attributes:
        scale: (C,) T. shift: (C, K) B.
        totals: sums over points there.
        reading: the term there.
        objective: E = sum of costs + weight R_e.
        gap: stationarity gap sum_p (s_p . G_p - min_k G_pk), G the costs and prices.
        kappa: of the last step.
        sweeps: over the points, rejected steps and the gap's included.
        rejected: steps.
        status: why it ended.
        trace: E at the start and after each step that was taken.
    """

    scale: Tensor
    shift: Tensor
    totals: Totals
    reading: Reading
    objective: float
    gap: float
    kappa: float
    sweeps: int
    rejected: int
    status: Status
    trace: tuple[float, ...]


def settle(
    sweep: Sweep,
    penalty: Penalty,
    clusters: int,
    *,
    spread: float,
    dtype: torch.dtype,
    kappa: float = 2.0,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    gap_tolerance: float = 1e-4,
) -> Settled:
    """Minimise E(S) = <S, a> + weight R_e over the assignments, the costs fixed. E never rises by more than rounding.

    Args:
        sweep: over the points.
        penalty: the term.
        clusters: K.
        spread: largest less least cost; 1e-9 of it is the least proximal weight.
        dtype: of the sweeps' arithmetic, of which the rounding of E is counted.
        kappa: first proximal weight, in units of the term's curvature.
        max_iterations: steps tried at most.
        tolerance: it ends when E changes by no more than this share of it, from the third step on, and
        gap_tolerance: the gap is no larger than this share of it.
    """
    cells = len(penalty.membership)
    scale, shift = torch.zeros(cells, dtype=torch.float64), torch.zeros(cells, clusters, dtype=torch.float64)
    least_weight = 1e-9 * max(spread, 1e-30)
    totals = sweep(scale, shift, None)
    reading = penalty.at(totals.counts)
    objective = totals.cost + reading.value
    factor, trace, rejected, status = torch.tensor(kappa, dtype=torch.float64), [float(objective)], 0, None
    gap, sweeps = torch.tensor(torch.inf, dtype=torch.float64), 1
    for iteration in range(max_iterations + 1):
        last = iteration == max_iterations
        rounding = allowance(totals.cost.abs() + reading.size, dtype)
        weights = (factor * reading.units).clamp_min(least_weight)
        new_scale, new_shift = scale + 1 / weights, shift + reading.prices / weights[:, None]
        asked = last or status is not None
        new = sweep(new_scale, new_shift, reading.prices if asked else None)
        sweeps += 1
        if asked:
            linear = totals.cost + (reading.prices * totals.counts).sum()
            gap = (linear - new.least.sum()).clamp_min(0)
            if status == Status.CONVERGED and far_from_stationary(gap, objective, rounding, gap_tolerance):
                status = None
            if last or status is not None:
                break
        # -sum_p tau KL(s_p || s_p+), from the sums
        change = totals.excess / weights + (reading.prices * totals.counts).sum(dim=1) / weights
        predicted = -(weights * (change + new.log_norms - totals.log_norms)).sum().clamp_min(0)
        new_reading = penalty.at(new.counts)
        new_objective = new.cost + new_reading.value
        taken = bool(torch.isfinite(new_objective)) and bool(accepted(objective, new_objective, predicted, rounding))
        factor = next_kappa(factor, torch.tensor(not taken), new_objective <= objective + predicted)
        if not taken:
            rejected += 1
            if -predicted <= rounding:
                status = Status.ROUNDING
            elif factor > KAPPA_MAX:
                status = Status.STEP_FAILED
            continue
        if iteration >= 2 and unchanged(objective, new_objective, rounding, tolerance):
            status = Status.CONVERGED
        scale, shift, totals, reading, objective = new_scale, new_shift, new, new_reading, new_objective
        trace.append(float(objective))
    return Settled(
        scale,
        shift,
        totals,
        reading,
        float(objective),
        float(gap),
        float(factor),
        sweeps,
        rejected,
        Status.MAX_ITERATIONS if status is None else status,
        tuple(trace),
    )
