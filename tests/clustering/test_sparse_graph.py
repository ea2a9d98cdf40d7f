"""Sparse graphs are the dense ones, entry by entry."""

import typing

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.graphs.dense_graph import DenseGraph, Symmetry
from clustering.graphs.neighbourhood import neighbour_graph
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.points import Features, Gram

SYMMETRIES: tuple[Symmetry, ...] = typing.get_args(Symmetry)


def as_matrix(graph: SparseGraph) -> torch.Tensor:
    """(B, N, N) weights."""
    size = len(graph.pointers) - 1
    rows = torch.repeat_interleave(torch.arange(size), graph.pointers.diff())
    whole = torch.zeros(size, size, dtype=graph.weights.dtype)
    whole[rows, graph.columns.long()] = graph.weights
    batch = size // graph.points
    blocks = whole.view(batch, graph.points, batch, graph.points)
    matrices = torch.stack([blocks[b, :, b] for b in range(batch)])
    assert int((matrices != 0).sum()) == len(graph.columns)  # nothing between problems, nothing twice, no zeros
    return matrices


def draw(seed: int, batch: int = 3, points: int = 9) -> torch.Tensor:
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def two_graphs(x: torch.Tensor, k: int, **options: typing.Any) -> tuple[SparseGraph, DenseGraph]:
    sparse, dense = neighbour_graph(Features(x), k, **options), neighbour_graph(Gram(x @ x.mT), k, **options)
    assert isinstance(sparse, SparseGraph)
    assert isinstance(dense, DenseGraph)
    return sparse, dense


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    points=st.integers(1, 9),
    k=st.integers(1, 12),
    symmetry=st.sampled_from(SYMMETRIES),
    pad=st.booleans(),
)
def test_it_is_the_dense_graph(seed: int, points: int, k: int, symmetry: Symmetry, pad: bool) -> None:
    x = draw(seed, points=points)
    valid = torch.rand(3, points, generator=torch.Generator().manual_seed(seed)) < 0.7 if pad else None
    sparse, dense = two_graphs(x, k, symmetry=symmetry, valid=valid)
    assert sparse.symmetric == dense.symmetric
    weights = dense.weights if valid is None else dense.weights * (valid[:, :, None] & valid[:, None])
    assert torch.equal(as_matrix(sparse), weights)
    S = torch.rand(3, points, 4, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    torch.testing.assert_close(sparse @ S, dense @ S)
    assert torch.equal(sparse @ S, sparse @ S)
    torch.testing.assert_close(sparse.degrees, weights.sum(2))
    some = torch.tensor([2, 0])
    assert torch.equal(as_matrix(sparse.select(some)), weights[some])
    factors = S[:, :, 0]
    torch.testing.assert_close(as_matrix(sparse.scaled(factors)), weights * factors[:, :, None] * factors[:, None])
