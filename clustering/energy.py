"""The discrete energy of Laplacian-regularised clusterings."""

import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SparseGraph


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
    rows = torch.repeat_interleave(graph.pointers.diff())
    cuts = [graph.weights[of[rows] != of[graph.columns]].sum(dtype=torch.float64) for of in labels]
    return torch.stack(cuts)
