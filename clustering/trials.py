"""Laplacian-regularised clustering of one data set, with many trials (starts, weights) in one batch over one graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.alternation import Alternation, Clamp, Empty, Members, Sweeps, alternate
from clustering.optimiser.prototypes import Prototypes
from clustering.optimiser.terms import Laplacian

_ARCS = 1 << 20
"""Number of arcs processed at a time."""


@dataclass(frozen=True)
class Course:
    """Settings of the trials; for the fields see `alternate`."""

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
) -> Alternation:
    """Minimise R(S, M) = <S, cost(M)> + T <S, log S> - (c / 2) <S, W S> from each start, with T the temperature of
    `course`.

    Args:
        prototypes: rule of the prototypes, for the rows of the data set.
        graph: W, one problem of N points.
        start: (T, K, D) initial prototypes.
        slopes: (T,) c >= 0: the update is softmax((-cost + c W S) / T).
        path: shares of c for continuation; each starts from the result of the previous one, and c itself comes last.
        clamp: (mask (N,), labels (N,)) of rows with known class.
        course: settings.

    Returns:
        The alternation at the last weight, with prototypes (T, K, D) as coefficients, its movements, and the numbers of
        steps and reseeded classes over the whole path.
    """
    trials = len(start)
    if clamp is not None:
        clamp = clamp[0].expand(trials, -1), clamp[1].expand(trials, -1)
    assignments, iterations, reseeded = None, torch.zeros_like(slopes).long(), torch.zeros_like(slopes).long()
    for share in (*path, 1.0):
        terms = [Laplacian(graph, (slopes * share)[:, None, None])] if (slopes > 0).any() else []
        alternation = alternate(
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
        start, assignments = alternation.coefficients, alternation.assignments
        iterations, reseeded = alternation.iterations + iterations, alternation.reseeded + reseeded
    return alternation._replace(iterations=iterations, reseeded=reseeded)


def discrete_energy(cost: Tensor, labels: Tensor, graph: SparseGraph, weights: Tensor) -> Tensor:
    """(T,) E = sum_p cost of p's label + weight sum_pq w_pq [l_p != l_q], counting every stored arc once, in float64.

    Args:
        cost: (T, K, N).
        labels: (T, N).
        graph: W, one problem.
        weights: (T,) lambda.
    """
    unary = cost.gather(1, labels[:, None]).sum(dim=(1, 2), dtype=torch.float64)
    return unary + weights.double() * cut(labels, graph)


def cut(labels: Tensor, graph: SparseGraph) -> Tensor:
    """(T,) sum of the weights of arcs between different labels (T, N), in float64."""
    total = torch.zeros(len(labels), dtype=torch.float64, device=labels.device)
    counts = graph.pointers.diff()
    step = max(1, _ARCS * graph.points // max(1, len(graph.columns)))
    for first in range(0, graph.points, step):
        rows = torch.arange(first, min(first + step, graph.points), device=labels.device)
        rows = torch.repeat_interleave(rows, counts[rows])
        arcs = slice(int(graph.pointers[first]), int(graph.pointers[min(first + step, graph.points)]))
        columns, weights = graph.columns[arcs], graph.weights[arcs]
        for trial, labels_of_trial in enumerate(labels):
            total[trial] += weights[labels_of_trial[rows] != labels_of_trial[columns]].sum(dtype=torch.float64)
    return total
