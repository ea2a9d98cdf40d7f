"""Minimisation of a sum of terms without a linear cost, with moves out of corners of the simplex.

A proximal step multiplies assignments, so a point with a one-hot assignment leaves its cluster slowly: rising from
1e-12 to a share that matters takes hundreds of steps, during which E hardly changes while the gap persists. If the
steps have not converged, or end in a corner, a part of each assignment is therefore moved to the cluster with the
lowest gradient, as far as that lowers E (a Frank-Wolfe step, 1956, with step length by halving), and the steps continue
from there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.optimiser.descent import descend
from clustering.optimiser.guard import Status
from clustering.optimiser.objective import Term

_TOGETHER = 50
"""Number of proximal steps between two moves."""

_HALVINGS = 12


class Lowered(NamedTuple):
    """Result of T starts.

    Attributes:
        assignments: (T, N, K).
        objective, gap: (T,) float64.
        converged: (T,) bool.
        history: for each start, E after every step, moves included.
    """

    assignments: Tensor
    objective: Tensor
    gap: Tensor
    converged: Tensor
    history: list[list[float]]


def lowered(
    terms: Sequence[Term], start: Tensor, *, max_iterations: int, tolerance: float, gap_tolerance: float
) -> Lowered:
    """Minimise a sum of terms from assignments (T, N, K), each start independently.

    E never rises by more than rounding.

    Args:
        terms: terms of E, which are shared by all starts.
        start: (T, N, K).
        max_iterations: maximum number of steps; a move counts as one.
        tolerance, gap_tolerance: as in `clustering.optimiser.descent.descend`.
    """
    S, open_ones = start.clone(), torch.arange(len(start), device=start.device)
    objective, gap = start.new_empty(len(start), dtype=torch.float64), start.new_empty(len(start), dtype=torch.float64)
    converged = torch.zeros(len(start), dtype=torch.bool, device=start.device)
    history: list[list[float]] = [[] for _ in range(len(start))]
    steps = 0
    while len(open_ones):
        descent = descend(
            torch.zeros_like(S[open_ones]),
            terms,
            start=S[open_ones],
            temperature=0.0,
            max_iterations=min(_TOGETHER, max_iterations - steps),
            tolerance=tolerance,
            gap_tolerance=gap_tolerance,
            trace=True,
        )
        assert descent.trace is not None
        S[open_ones], objective[open_ones], gap[open_ones] = descent.assignments, descent.objective, descent.gap
        for i, place in enumerate(open_ones.tolist()):
            values = descent.trace[:, i]
            history[place] += values[~torch.isnan(values)].tolist()[1:]
        steps += int(descent.iterations.max())
        done = descent.status != Status.MAX_ITERATIONS
        stationary = done & (descent.gap <= gap_tolerance * descent.objective.abs())
        converged[open_ones] = stationary
        open_ones, done = open_ones[~stationary], done[~stationary]
        if steps + 1 >= max_iterations:
            break
        if len(open_ones):
            steps += 1
            S[open_ones], E = _moved(terms, S[open_ones])
            for i, place in enumerate(open_ones.tolist()):
                history[place].append(float(E[i]))
            stuck = done & ~(E < objective[open_ones])  # neither a step nor a move lowers E
            converged[open_ones[stuck]] = True
            open_ones = open_ones[~stuck]
    return Lowered(S, objective, gap, converged, history)


def _moved(terms: Sequence[Term], S: Tensor) -> tuple[Tensor, Tensor]:
    """Assignments (T, N, K) moved towards the clusters of lowest gradient as far as that lowers E, and E (T,)."""
    E, gradient = _at(terms, S)
    best = torch.zeros_like(S).scatter_(2, gradient.argmin(dim=2, keepdim=True), 1.0)
    share, left = 1.0, torch.ones_like(E, dtype=torch.bool)
    for _ in range(_HALVINGS):
        moved = torch.lerp(S, best, share)
        new, _ = _at(terms, moved)
        better = left & (new < E)
        S, E, left = torch.where(better[:, None, None], moved, S), torch.where(better, new, E), left & ~better
        if not left.any():
            break
        share /= 2
    return S, E


def _at(terms: Sequence[Term], S: Tensor) -> tuple[Tensor, Tensor]:
    parts = [term.value_and_gradient(S) for term in terms]
    return sum((value for value, _ in parts[1:]), parts[0][0]), sum((slope for _, slope in parts[1:]), parts[0][1])
