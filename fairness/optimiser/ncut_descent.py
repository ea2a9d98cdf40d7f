"""Assignments of least E where nothing but the terms says what they pay, with a way out of corners of the simplex.

A proximal step multiplies assignments, so that a point that is certain to be in a cluster leaves it slowly: from 1e-12
to a share that counts takes hundreds of steps, while E hardly changes and the gap stays. Where steps have not ended,
some of every assignment is therefore moved to the cluster that costs least, as much as lowers E (a step of Frank and
Wolfe 1956, whose length is found by halving), and they go on from there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.optimiser.descent import Status, descend
from clustering.optimiser.objective import Term

_TOGETHER = 50
"""Proximal steps between two moves."""

_HALVINGS = 12


class Lowered(NamedTuple):
    """Where T starts ended.

    Attributes:
        assignments: (T, N, K).
        objective, gap: (T,) float64.
        converged: (T,) bool.
        history: of each start E at first and after every step.
        steps: of the start that took most, moves included.
    """

    assignments: Tensor
    objective: Tensor
    gap: Tensor
    converged: Tensor
    history: list[list[float]]
    steps: int


def lowered(
    terms: Sequence[Term], start: Tensor, *, max_iterations: int, tolerance: float, gap_tolerance: float
) -> Lowered:
    """Lower the sum of terms, every start by itself, from (T, N, K) assignments. E never rises by more than rounding.

    Args:
        terms: of E, which have no part for each of the starts.
        start: (T, N, K).
        max_iterations: steps at most; a move counts as one.
        tolerance, gap_tolerance: as of `clustering.optimiser.descent.descend`.
    """
    S, open_ones = start.clone(), torch.arange(len(start), device=start.device)
    objective, gap = start.new_empty(len(start), dtype=torch.float64), start.new_empty(len(start), dtype=torch.float64)
    converged = torch.zeros(len(start), dtype=torch.bool, device=start.device)
    history: list[list[float]] = [[] for _ in range(len(start))]
    steps = 0
    while len(open_ones):
        found = descend(
            torch.zeros_like(S[open_ones]),
            terms,
            start=S[open_ones],
            temperature=0.0,
            max_iterations=min(_TOGETHER, max_iterations - steps),
            tolerance=tolerance,
            gap_tolerance=gap_tolerance,
            trace=True,
        )
        assert found.trace is not None
        S[open_ones], objective[open_ones], gap[open_ones] = found.assignments, found.objective, found.gap
        for i, place in enumerate(open_ones.tolist()):
            seen = found.trace[:, i]
            history[place] += seen[~torch.isnan(seen)].tolist()[1 if history[place] else 0 :]
        steps += int(found.iterations.max())
        ended = found.status != Status.MAX_ITERATIONS
        converged[open_ones] = ended
        open_ones = open_ones[~ended]
        if steps + 1 >= max_iterations:
            break
        if len(open_ones):
            steps += 1
            S[open_ones], E = _moved(terms, S[open_ones])
            for i, place in enumerate(open_ones.tolist()):
                history[place].append(float(E[i]))
    return Lowered(S, objective, gap, converged, history, steps)


def _moved(terms: Sequence[Term], S: Tensor) -> tuple[Tensor, Tensor]:
    """Assignments (T, N, K) some way to the clusters that cost least, as far as lowers E, and E (T,)."""
    E, gradient = _at(terms, S)
    best = torch.zeros_like(S).scatter_(2, gradient.argmin(dim=2, keepdim=True), 1.0)
    share, left = 1.0, torch.ones_like(E, dtype=torch.bool)
    for _ in range(_HALVINGS):
        tried = torch.lerp(S, best, share)
        new, _ = _at(terms, tried)
        better = left & (new < E)
        S, E, left = torch.where(better[:, None, None], tried, S), torch.where(better, new, E), left & ~better
        if not left.any():
            break
        share /= 2
    return S, E


def _at(terms: Sequence[Term], S: Tensor) -> tuple[Tensor, Tensor]:
    found = [term.value_and_gradient(S) for term in terms]
    return sum((value for value, _ in found[1:]), found[0][0]), sum((slope for _, slope in found[1:]), found[0][1])
