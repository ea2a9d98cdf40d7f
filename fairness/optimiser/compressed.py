"""The step of `clustering.optimiser.descent` with assignments stored as C + C K numbers, for large numbers of points.

With fixed costs a, and with prices and proximal weights tau that are equal for all points of a cell, t steps from log
S0 lead to

    log s_pk = log s0_pk - T_c a_pk - B_ck - log Z_p,       T_c = sum_t 1 / tau_tc,   B_ck = sum_t price_tck / tau_tc.

A step thus changes only T (C,) and B (C, K), and a rejected step restores only these. Each step is one sweep over the
points, which sums counts, costs and log Z by cell. The step and its acceptance rule are those of `descend` at
temperature 0 with the term `fairness.optimiser.terms.GroupProportions`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.optimiser.guard import Guard, Status
from clustering.optimiser.objective import allowance
from fairness.optimiser.penalty import Penalty, Reading


class Totals(NamedTuple):
    """Sums over points by cell, float64 on the CPU. Totals of disjoint sets of points add up.

    Attributes:
        counts: (C, K) sum of s_pk.
        lowest: (C,) sum of min_k a_pk.
        excess: (C,) sum of s_p . a_p minus `lowest`.
        log_norms: (C,) sum of log Z_p, with each point's lowest cost subtracted from its costs.
        least: (C,) sum of min_k (a_pk + price_k), 0 without prices.
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
        return Totals(*(own + added for own, added in zip(self, other, strict=True)))


Sweep = Callable[[Tensor, Tensor, Tensor | None], Totals]
"""Computes Totals at T (C,) and B (C, K); `least` is computed if prices (C, K) are passed."""


class Settled(NamedTuple):
    """Result of the steps.

    Attributes:
        scale: (C,) T. shift: (C, K) B.
        totals: sums over points at the result.
        reading: the fairness term at the result.
        objective: E = sum of costs + weight R_e.
        gap: stationarity gap sum_p (s_p . G_p - min_k G_pk), where G are the costs plus prices.
        kappa: proximal factor of the last step.
        sweeps: number of sweeps over the points, including those of rejected steps and of the gap.
        rejected: number of rejected steps.
        status: reason for stopping.
        trace: E at the start and after each accepted step.
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
    """Minimise E(S) = <S, a> + weight R_e over the assignments for fixed costs. E never rises by more than rounding.

    Args:
        sweep: function that computes the totals.
        penalty: the fairness term.
        clusters: K.
        spread: difference of the largest and the smallest cost; 1e-9 of it is the smallest proximal weight.
        dtype: dtype of the sweeps, which determines the rounding error of E.
        kappa: initial proximal weight, in units of the curvature of the term.
        max_iterations: maximum number of steps, including rejected ones.
        tolerance: relative change of E at which the steps stop, from the third step on, if also
        gap_tolerance: the gap is at most this share of E.
    """
    cells = len(penalty.membership)
    scale, shift = torch.zeros(cells, dtype=torch.float64), torch.zeros(cells, clusters, dtype=torch.float64)
    least_weight = 1e-9 * max(spread, 1e-30)
    totals = sweep(scale, shift, None)
    reading = penalty.at(totals.counts)
    objective = totals.cost + reading.value
    guard = Guard(torch.tensor(True), tolerance, gap_tolerance, torch.tensor(kappa, dtype=torch.float64))
    trace, rejected, sweeps, gap = [float(objective)], 0, 1, torch.tensor(torch.inf, dtype=torch.float64)
    for iteration in range(max_iterations + 1):
        last = iteration == max_iterations
        rounding = allowance(totals.cost.abs() + reading.size, dtype)
        assert guard.kappa is not None
        factor: Tensor = guard.kappa
        weights = (factor * reading.units).clamp_min(least_weight)
        new_scale, new_shift = scale + 1 / weights, shift + reading.prices / weights[:, None]
        needs_gap = last or guard.ended
        new = sweep(new_scale, new_shift, reading.prices if needs_gap else None)
        sweeps += 1
        if needs_gap:
            linear = totals.cost + (reading.prices * totals.counts).sum()
            gap = (linear - new.least.sum()).clamp_min(0)
            guard.spare(gap, objective, rounding)
            if last or guard.ended:
                break
        # -sum_p tau KL(s_p || s_p+), computed from the sums
        change = totals.excess / weights + (reading.prices * totals.counts).sum(dim=1) / weights
        predicted = -(weights * (change + new.log_norms - totals.log_norms)).sum().clamp_min(0)
        new_reading = penalty.at(new.counts)
        # A step that overflows counts as a rise, whatever the sign.
        new_objective = (new.cost + new_reading.value).nan_to_num(torch.inf, torch.inf, torch.inf)
        if guard.judge(objective, new_objective, predicted, rounding) is not None:
            rejected += 1
            continue
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
        Status(int(guard.status)),
        tuple(trace),
    )
