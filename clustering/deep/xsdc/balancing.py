"""Matrix balancing: estimates which points share a cluster from features and known labels and links.

    min_M <M, A> + nu sum_ij (M log(M / M0) - M + M0),    M_ij = m_ij where known,    low <= row and column sums <= high

over n x n matrices M >= 0, relaxed equivalence matrices, with nu the median |A_ij|; the sum of a row is the size of
that point's cluster (XSDC, Jones, Roulet and Harchaoui, eq. 5 with the coefficient 1 of <M, A> that their Algorithm 1
solves, where the print has 1/2). The unknown entries of the solution are u_i M0 exp(-A_ij / nu) v_j. Rows and columns
are scaled alternately.
"""

import math

import numpy as np
import torch
from torch import Tensor

_SMALLEST_TEMPERATURE = 1e-12
"""Lower bound of the temperature: if all features are equal, A is 0 up to rounding."""


def balance(
    dissimilarity: Tensor,
    known: Tensor,
    values: Tensor,
    low: float,
    high: float,
    *,
    reference: float | None = None,
    rounds: int = 10,
) -> tuple[Tensor, float]:
    """Balance a matrix, where known entries are not scaled but subtracted from the bounds of their row.

    This has the same fixed point as Algorithm 1 of the paper, and gets closer to it per round. Memory: a few n x n
    arrays. Time: `rounds` passes over one of them.

    Args:
        dissimilarity: (n, n) A, from `clustering.deep.xsdc.discriminative`.
        known: (n, n) bool, symmetric.
        values: (n, n) m >= 0, read where known.
        low: minimum number of points in a cluster, n_min >= 0.
        high: maximum number of points in a cluster, n_max >= n_min.
        reference: M0 > 0; None uses the mean of the bounds divided by n, which is 1 / K for low = high = n / K. It has
            no effect if low = high.
        rounds: number of rounds of scaling; 10 in the paper.

    Returns:
        (n, n) M, with exact known entries, and column sums within the bounds, symmetric only at convergence; and the
        largest number of points by which a row sum violates the bounds.

    Known entries must not exceed the bounds, see `clustering.constraints.size_bounds`.
    """
    A, points = dissimilarity, len(dissimilarity)
    fixed = torch.where(known, values.to(A.dtype), 0.0)
    nu = max(_median(A.abs().flatten()), _SMALLEST_TEMPERATURE)
    reference = (low + high) / (2 * points) if reference is None else reference
    logits = (A / -nu).add_(math.log(reference)).masked_fill_(known, -torch.inf)
    of_rows, of_columns = (
        ((low - part).clamp_min(0), (high - part).clamp_min(0)) for part in (fixed.sum(1), fixed.sum(0))
    )
    M = _scaled(logits, of_rows, of_columns, rounds)
    M = (_scaled_in_logarithms(logits, of_rows, of_columns, rounds) if M is None else M) + fixed
    sums = M.sum(1)
    return M, float(torch.maximum(low - sums, sums - high).clamp_min(0).amax())


def _median(values: Tensor) -> float:
    """The lower of the middle two of an even number, as torch has it and so the authors. On the CPU by numpy, whose
    selection takes a fiftieth of the time of torch's."""
    if values.device.type != "cpu":
        return float(values.median())
    middle = (len(values) - 1) // 2
    return float(np.partition(values.numpy(), middle)[middle])


_Limits = tuple[Tensor, Tensor]
"""(n,) lower and upper bounds on the sums of unknown entries."""


def _scaled(logits: Tensor, rows: _Limits, columns: _Limits, rounds: int) -> Tensor | None:
    """(n, n) u exp(logits) v after some rounds, from u = v = 1; None where that leaves the range of numbers."""
    highest = logits.amax(1, keepdim=True)
    highest = torch.where(highest.isfinite(), highest, 0.0)
    plan = (logits - highest).exp_()  # the largest entry of each row is one
    lowest_mass = torch.finfo(plan.dtype).tiny ** 0.3
    open_rows, open_columns = plan.sum(1) > 0, logits.amax(0) > -torch.inf
    peak = highest[:, 0].exp()
    if not bool(((peak > lowest_mass) & (peak < 1 / lowest_mass)).all()):
        return None
    v = plan.new_ones(len(plan))
    for _ in range(rounds):
        mass = plan @ v
        if bool((mass[open_rows] < lowest_mass).any()):
            return None
        u = torch.where(open_rows, (peak * mass).clamp(*rows) / mass, 0.0)
        mass = u @ plan
        if bool((mass[open_columns] < lowest_mass).any()):
            return None
        v = torch.where(open_columns, mass.clamp(*columns) / mass, 0.0)
    return plan.mul_(u[:, None]).mul_(v)


def _scaled_in_logarithms(logits: Tensor, rows: _Limits, columns: _Limits, rounds: int) -> Tensor:
    """The same, for numbers of any size, at an exponential for each of n^2 entries twice a round."""
    log_u, log_v = logits.new_zeros(len(logits)), logits.new_zeros(len(logits))
    for _ in range(rounds):
        log_u = _log_scale(torch.logsumexp(logits + log_v, dim=1), rows)
        log_v = _log_scale(torch.logsumexp(logits + log_u[:, None], dim=0), columns)
    return (logits + log_u[:, None] + log_v).exp_()


def _log_scale(log_mass: Tensor, limits: _Limits) -> Tensor:
    scale = log_mass.clamp(limits[0].log(), limits[1].log()) - log_mass
    return torch.where(log_mass > -torch.inf, scale, 0.0)
