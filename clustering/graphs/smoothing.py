"""Assignments that are smooth on a graph, a convex problem solved by accelerated projected gradient."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SharedGraph, SparseGraph
from clustering.optimiser.objective import inner
from clustering.optimiser.simplex import project


class Smoothed(NamedTuple):
    """Result of `smoothed`.

    Attributes:
        assignments: (T, K, N) S, classes before points; columns sum to one.
        objective: (T,) float64.
        gap: (T,) upper bound on the distance of the objective from its minimum, float64.
        iterations: (T,) number of gradient steps, int64.
    """

    assignments: Tensor
    objective: Tensor
    gap: Tensor
    iterations: Tensor


@dataclass(frozen=True)
class Smoothness:
    """f(S) = weight tr(S^T (D - W) S), convex since W >= 0; see `clustering.optimiser.terms.Laplacian` for the concave
    form.

    Attributes:
        graph: symmetric W >= 0, shared by all problems of a batch.
        weight: lambda > 0.
    """

    graph: SparseGraph
    weight: float

    @cached_property
    def degrees(self) -> Tensor:
        """(N,) d."""
        return self.graph.degrees[0]

    def laplacian(self, S: Tensor) -> Tensor:
        """(T, K, N) (D - W) S."""
        return torch.addcmul(-(SharedGraph(self.graph) @ S.mT).mT, S, self.degrees)

    def largest(self) -> float:
        """Upper bound on the eigenvalues of D - W: max_p d_p + mean of d over the neighbours of p (Merris 1998)."""
        degrees = self.degrees
        of_neighbours = (self.graph @ degrees[None, :, None])[0, :, 0]
        linked = degrees > 0
        return float((degrees[linked] + of_neighbours[linked] / degrees[linked]).max()) if linked.any() else 0.0


def smoothed(
    cost: Tensor, smoothness: Smoothness, start: Tensor, *, max_iterations: int = 1000, tolerance: float = 1e-4
) -> Smoothed:
    """Minimise <cost, S> + weight tr(S^T (D - W) S) over S with columns in the simplex, each problem independently.

    Uses Nesterov's steps (Beck and Teboulle 2009), with a restart of the momentum when the objective would rise
    (O'Donoghue and Candes 2015), so that it never rises. A step takes a product with the graph and a projection.

    Args:
        cost: (T, K, N), smaller is better.
        start: (T, K, N) assignments.
        max_iterations: maximum number of steps.
        tolerance: stop when the gap <G, S> - sum_p min_k G_pk, with G the gradient, is at most this share of the
            absolute summands of the objective.
    """
    if smoothness.weight == 0:
        labels = cost.min(dim=1, keepdim=True).indices
        best = torch.zeros_like(cost).scatter_(1, labels, 1.0)
        none = torch.zeros(len(cost), dtype=torch.float64, device=cost.device)
        return Smoothed(best, inner(cost, best).double(), none, none.long())
    step, double = 1 / max(smoothness.largest(), torch.finfo(cost.dtype).tiny), 2 * smoothness.weight
    numbers = torch.zeros(2, len(cost), dtype=torch.float64, device=cost.device)
    result = Smoothed(torch.empty_like(start), numbers[0], numbers[1], torch.zeros_like(numbers[0], dtype=torch.int64))
    left, S, LS = torch.arange(len(cost), device=cost.device), start, smoothness.laplacian(start)
    Y, LY, age = S, LS, start.new_ones(len(cost))  # start of the next step, and its age, 1 if it is S itself
    stuck = torch.zeros_like(left, dtype=torch.bool)
    for iteration in range(max_iterations + 1):
        G = torch.add(cost, LS, alpha=double)
        smooth, unary = inner(S, LS).double() * smoothness.weight, inner(S, cost).double()
        gap = (inner(S, G).double() - G.amin(dim=1).sum(dim=1, dtype=torch.float64)).clamp_min(0)
        size = smooth + unary.abs()
        ended = stuck | (gap <= tolerance * size) | (iteration == max_iterations)
        if ended.any():
            places = left[ended]
            result.assignments[places], result.objective[places] = S[ended], (smooth + unary)[ended]
            result.gap[places], result.iterations[places] = gap[ended], iteration
            rest = ~ended
            if not rest.any():
                break
            left, stuck, S, LS, Y, LY, age, cost, smooth, unary, size = (
                part[rest] for part in (left, stuck, S, LS, Y, LY, age, cost, smooth, unary, size)
            )
        new = project(torch.add(Y, torch.add(LY, cost, alpha=1 / double), alpha=-step))
        Lnew = smoothness.laplacian(new)
        rose = inner(new, Lnew).double() * smoothness.weight + inner(new, cost) > smooth + unary + (
            8 * torch.finfo(cost.dtype).eps * size
        )
        stuck = rose & (age == 1)  # a plain step raises the objective only by rounding
        older = (1 + (1 + 4 * age.square()).sqrt()) / 2
        momentum = ((age - 1) / older)[:, None, None]
        kept = rose[:, None, None]
        Y = torch.where(kept, S, torch.addcmul(new, momentum, new - S))
        LY = torch.where(kept, LS, torch.addcmul(Lnew, momentum, Lnew - LS))
        S, LS = torch.where(kept, S, new), torch.where(kept, LS, Lnew)
        age = torch.where(rose, 1.0, older)
    return result
