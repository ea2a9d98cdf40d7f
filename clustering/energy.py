"""The discrete energy of Laplacian-regularised clusterings."""

import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SparseGraph

_ARCS = 1 << 20
"""Number of arcs processed at a time."""


def discrete_energy(cost: Tensor, labels: Tensor, graph: SparseGraph, weight: float) -> Tensor:
    """(T,) E = sum_p cost of p's label + weight sum_pq w_pq [l_p != l_q], counting every stored arc once, in float64.

    Args:
        cost: (T, K, N).
        labels: (T, N).
        graph: W, one problem.
        weight: lambda.
    """
    return cost.gather(1, labels[:, None]).sum(dim=(1, 2), dtype=torch.float64) + weight * cut(labels, graph)


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
