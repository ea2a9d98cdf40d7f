"""Matrix balancing: which points belong together, of features that tell them apart and of what is known already.

    min_M <M, A> + nu sum_ij (M log(M / M0) - M + M0),    M_ij = m_ij where known,    low <= row and column sums <= high

over n x n matrices M >= 0, relaxed equivalence matrices; the sum of a row is the size of that point's cluster (XSDC,
Jones, Roulet and Harchaoui, eq. 5 with the coefficient 1 of <M, A> that their Algorithm 1 solves, where the print has
1/2). The unknown entries of the solution are u_i M0 exp(-A_ij / nu) v_j. Rows and columns are scaled in turns.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.errors import InputError

_SMALLEST_TEMPERATURE = 1e-12
"""Where all features are equal, so is A, up to rounding: 0."""


class Balanced(NamedTuple):
    """What `balance` found.

    Attributes:
        equivalence: (…, n, n) M. Known entries are exact, and column sums within the bounds; it is symmetric at
            convergence only.
        residual: (…) by how many points, at most, a row's sum is outside the bounds.
        temperature: (…) nu.
    """

    equivalence: Tensor
    residual: Tensor
    temperature: Tensor


def balance(
    dissimilarity: Tensor,
    known: Tensor,
    values: Tensor,
    low: float,
    high: float,
    *,
    temperature: float | None = None,
    reference: float | None = None,
    rounds: int = 10,
) -> Balanced:
    """Balance, with known entries left out of the scaling: their share of a row is subtracted from its bounds instead.

    That has the fixed point of the paper's Algorithm 1, and comes nearer to it in a round. Takes a handful of arrays of
    n x n, and `rounds` passes over one of them. A problem alone gives what it gives in a batch.

    Args:
        dissimilarity: (…, n, n) A, of `clustering.deep.xsdc.discriminative`.
        known: (…, n, n) bool, symmetric.
        values: (…, n, n) m >= 0, read where known.
        low: fewest points of a cluster, n_min >= 0.
        high: most, n_max >= n_min.
        temperature: nu > 0; median |A_ij| where None.
        reference: M0 > 0; the mean of the bounds over n where None, which is 1 / K for low = high = n / K. With
            low = high it does not matter.
        rounds: of the scaling; 10 in the paper.

    Raises:
        InputError: bounds that what is known cannot meet, see `check_feasible`.
    """
    A, points = dissimilarity.detach(), dissimilarity.shape[-1]
    known = known.expand(A.shape)
    fixed = torch.where(known, values.to(A.dtype), 0.0)
    check_feasible(known, fixed, low, high)
    nu = _median(A.abs().flatten(-2)) if temperature is None else A.new_full(A.shape[:-2], temperature)
    nu = nu.clamp_min(_SMALLEST_TEMPERATURE)
    reference = (low + high) / (2 * points) if reference is None else reference
    logits = (A / -nu[..., None, None]).add_(math.log(reference)).masked_fill_(known, -torch.inf)
    rows, columns = fixed.sum(-1), fixed.sum(-2)
    limits = [((low - part).clamp_min(0), (high - part).clamp_min(0)) for part in (rows, columns)]
    M = _scaled(logits, limits[0], limits[1], rounds)
    M = (_scaled_in_logarithms(logits, limits[0], limits[1], rounds) if M is None else M) + fixed
    sums = M.sum(-1)
    residual = torch.maximum(low - sums, sums - high).clamp_min(0).amax(-1)
    return Balanced(M, residual, nu)


def check_feasible(known: Tensor, values: Tensor, low: float, high: float) -> None:
    """Raise InputError where what is known of a row leaves no room for its bounds.

    Args:
        known: (…, n, n) bool.
        values: (…, n, n), 0 where not known.
        low: fewest points of a cluster.
        high: most.
    """
    points = known.shape[-1]
    if not 0 <= low <= high or high <= 0:
        raise InputError(f"size bounds must be 0 <= low <= high, not {low:g} and {high:g}")
    slack = 1e-9 * points  # bounds such as n / K are no whole numbers
    sums, whole = values.sum(-1), known.all(-1)
    too_many = sums > high + slack
    if bool(too_many.any()):
        row = int(sums.flatten().argmax()) % points
        raise InputError(
            f"{float(sums.max()):g} of {points} points are known to be in one cluster (that of point {row}), "
            f"but a cluster has at most {high:g}: raise max_share, or take more points at a time (batch_size)"
        )
    too_few = whole & (sums < low - slack)
    if bool(too_few.any()):
        *_, row = too_few.nonzero()[0].tolist()
        raise InputError(
            f"all is known of point {row}, whose cluster has {float(sums[too_few].min()):g} of {points} points, "
            f"but a cluster has at least {low:g}: lower min_share, or take more points at a time (batch_size)"
        )


def _median(values: Tensor) -> Tensor:
    """(…) of (…, m): the lower of the middle two of an even number, as torch has it and so the authors. On the CPU by
    numpy, whose selection takes a fiftieth of the time of torch's."""
    if values.device.type != "cpu":
        return values.median(dim=-1).values
    middle = (values.shape[-1] - 1) // 2
    return torch.from_numpy(np.asarray(np.partition(values.numpy(), middle, axis=-1)[..., middle]))


_Limits = tuple[Tensor, Tensor]
"""(…, n) least and greatest sums of what is not known."""


def _scaled(logits: Tensor, rows: _Limits, columns: _Limits, rounds: int) -> Tensor | None:
    """(…, n, n) u exp(logits) v after some rounds, from u = v = 1; None where that leaves the range of numbers."""
    highest = logits.amax(-1, keepdim=True)
    highest = torch.where(highest.isfinite(), highest, 0.0)
    plan = (logits - highest).exp_()  # the largest of each row is one
    lowest_mass = torch.finfo(plan.dtype).tiny ** 0.3
    open_rows, open_columns = plan.sum(-1) > 0, logits.amax(-2) > -torch.inf
    peak = highest[..., 0].exp()
    if not bool(((peak > lowest_mass) & (peak < 1 / lowest_mass)).all()):
        return None
    u, v = plan.new_ones(plan.shape[:-1]), plan.new_ones(plan.shape[:-1])
    for _ in range(rounds):
        mass = (plan @ v[..., None])[..., 0]
        if bool((mass[open_rows] < lowest_mass).any()):
            return None
        total = peak * mass
        u = torch.where(open_rows, total.clamp(*rows) / mass, 0.0)
        mass = (plan.mT @ u[..., None])[..., 0]
        if bool((mass[open_columns] < lowest_mass).any()):
            return None
        v = torch.where(open_columns, mass.clamp(*columns) / mass, 0.0)
    return plan.mul_(u[..., :, None]).mul_(v[..., None, :])


def _scaled_in_logarithms(logits: Tensor, rows: _Limits, columns: _Limits, rounds: int) -> Tensor:
    """The same, for numbers of any size, at an exponential for each of n^2 entries twice a round."""
    log_u, log_v = logits.new_zeros(logits.shape[:-1]), logits.new_zeros(logits.shape[:-1])
    for _ in range(rounds):
        log_u = _log_scale(torch.logsumexp(logits + log_v[..., None, :], dim=-1), rows)
        log_v = _log_scale(torch.logsumexp(logits + log_u[..., :, None], dim=-2), columns)
    return (logits + log_u[..., :, None] + log_v[..., None, :]).exp_()


def _log_scale(log_mass: Tensor, limits: _Limits) -> Tensor:
    scale = log_mass.clamp(limits[0].log(), limits[1].log()) - log_mass
    return torch.where(log_mass > -torch.inf, scale, 0.0)
