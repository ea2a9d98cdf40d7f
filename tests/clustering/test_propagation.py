"""Propagation by conjugate gradients against the inverse."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.graphs.knn import nearest_neighbours
from clustering.graphs.propagation import DensePropagation, SparsePropagation
from clustering.graphs.sparse_graph import SparseGraph
from tests.clustering.test_sparse_graph import as_matrix


def draw(seed: int, alpha: float, own: bool) -> tuple[SparsePropagation, DensePropagation]:
    """Of two normalised graphs of 12 points, with or without an arc from each point to itself."""
    x = torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(seed))
    found = nearest_neighbours(x, 3)
    graph = SparseGraph.of_arcs(found.indices, torch.exp(-found.squared_distances), "union")
    scale = (graph.degrees + own).rsqrt()
    diagonal = scale.square() if own else None
    graph = graph.scaled(scale)
    whole = as_matrix(graph).double() + (torch.diag_embed(diagonal.double()) if own and diagonal is not None else 0)
    inverse = torch.linalg.inv(torch.eye(12, dtype=torch.float64) - alpha * whole).float()
    return SparsePropagation(graph, alpha, diagonal), DensePropagation(inverse)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000), alpha=st.just(0.0) | st.floats(0.1, 0.99), own=st.booleans())
def test_conjugate_gradients_agree_with_the_inverse(seed: int, alpha: float, own: bool) -> None:
    sparse, dense = draw(seed, alpha, own)
    labels = torch.nn.functional.one_hot(torch.arange(12) % 4, 5).T.float().expand(2, 5, 12) * (torch.arange(12) < 6)
    assert not labels[:, 4].any()  # a class without a label
    found = sparse.spread(labels)
    torch.testing.assert_close(found, dense.spread(labels), atol=1e-4, rtol=1e-4)
    assert not found[:, 4].any()
    second = torch.tensor([1])
    torch.testing.assert_close(sparse.select(second).spread(labels[second]), found[second])
    torch.testing.assert_close(dense.select(second).spread(labels[second]), dense.spread(labels)[second])
