"""Laplacian-regularised clustering of one data set, for many trials (starts, weights) as one batch over one graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SharedGraph, SparseGraph
from clustering.optimiser.alternation import Clamp, Empty, Members, Sweeps, alternate
from clustering.optimiser.prototypes import Prototypes
from clustering.optimiser.terms import Laplacian

TOGETHER = 1 << 24
"""Assignments, N K of each trial, that are worked on together: about a dozen arrays of 64 MiB in float32."""

_ARCS = 1 << 20
"""Arcs that are looked at at a time."""


class Trials(NamedTuple):
    """Where T trials ended.

    Attributes:
        assignments: (T, N, K) S.
        prototypes: (T, K, D) coordinates, those that S was found with.
        objective: (T,) R of S, float64.
        iterations: (T,) outer steps, those of the path included, int64.
        reseeded: (T,) empty classes that began again, int64.
        outcome: (T,) values of `Outcome`, int64.
        trace: (t, T) R after each assignment step, NaN after a trial has stopped; of the path's last weight.
        movements: (t, T, K) Euclidean distance of each prototype to the next, likewise.
    """

    assignments: Tensor
    prototypes: Tensor
    objective: Tensor
    iterations: Tensor
    reseeded: Tensor
    outcome: Tensor
    trace: Tensor
    movements: Tensor

    @property
    def labels(self) -> Tensor:
        """(T, N) argmax S, ties to the lowest class."""
        return self.assignments.mT.max(dim=1).indices

    def of(self, some: slice) -> "Trials":
        """Some of the trials."""
        rest = (self.objective[some], self.iterations[some], self.reseeded[some], self.outcome[some])
        return Trials(
            self.assignments[some], self.prototypes[some], *rest, self.trace[:, some], self.movements[:, some]
        )


@dataclass(frozen=True)
class Course:
    """How trials are run; see `alternate` for what the fields do."""

    sweeps: Sweeps = field(default_factory=Sweeps)
    members: Members = "soft"
    empty: Empty = "reseed"
    max_iterations: int = 100
    tolerance: float = 1e-5
    temperature: float = 1.0


def run_trials(
    prototypes: Prototypes,
    graph: SparseGraph,
    start: Tensor,
    slopes: Tensor,
    *,
    path: Sequence[float] = (),
    clamp: Clamp | None = None,
    course: Course = Course(),
) -> Trials:
    """Minimise R(S, M) = <S, cost(M)> + T <S, log S> - (c / 2) <S, W S> from each start, T the course's temperature.

    Args:
        prototypes: the rule, over the rows of the data set.
        graph: W, one problem of N points.
        start: (T, K, D) first prototypes.
        slopes: (T,) c >= 0: the update is softmax((-cost + c W S) / T).
        path: shares of c that are gone through first, each from where the one before ended (continuation).
        clamp: (mask (N,), labels (N,)) of rows whose class is known.
        course: how.
    """
    trials = len(start)
    if clamp is not None:
        clamp = clamp[0].expand(trials, -1), clamp[1].expand(trials, -1)
    assignments, iterations, reseeded = None, torch.zeros_like(slopes).long(), torch.zeros_like(slopes).long()
    shared = SharedGraph(graph)
    for share in (*path, 1.0):
        terms = [Laplacian(shared, (slopes * share)[:, None, None])] if (slopes > 0).any() else []
        found = alternate(
            prototypes,
            start,
            terms,
            clamp=clamp,
            assignments=assignments,
            temperature=course.temperature,
            members=course.members,
            empty=course.empty,
            sweeps=course.sweeps,
            max_iterations=course.max_iterations,
            tolerance=course.tolerance,
            movements=True,
        )
        start, assignments = found.coefficients, found.assignments
        iterations, reseeded = found.iterations + iterations, found.reseeded + reseeded
    assert found.movements is not None
    return Trials(
        found.assignments,
        found.coefficients,
        found.objective,
        iterations,
        reseeded,
        found.outcome,
        found.trace,
        found.movements,
    )


def discrete_energy(cost: Tensor, labels: Tensor, graph: SparseGraph, weights: Tensor) -> Tensor:
    """(T,) E = sum_p cost of p's label + weight sum_pq w_pq [l_p != l_q], every stored arc once, in float64.

    Args:
        cost: (T, K, N).
        labels: (T, N).
        graph: W, one problem.
        weights: (T,) lambda.
    """
    unary = cost.gather(1, labels[:, None]).sum(dim=(1, 2), dtype=torch.float64)
    return unary + weights.double() * cut(labels, graph)


def cut(labels: Tensor, graph: SparseGraph) -> Tensor:
    """(T,) sum of the weights of the arcs between different labels (T, N), in float64."""
    total = torch.zeros(len(labels), dtype=torch.float64, device=labels.device)
    counts = graph.pointers.diff()
    step = max(1, _ARCS * graph.points // max(1, len(graph.columns)))
    for first in range(0, graph.points, step):
        rows = torch.arange(first, min(first + step, graph.points), device=labels.device)
        rows = torch.repeat_interleave(rows, counts[rows])
        arcs = slice(int(graph.pointers[first]), int(graph.pointers[min(first + step, graph.points)]))
        columns, weights = graph.columns[arcs], graph.weights[arcs]
        for trial, own in enumerate(labels):
            total[trial] += weights[own[rows] != own[columns]].sum(dtype=torch.float64)
    return total
