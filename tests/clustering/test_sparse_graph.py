"""Sparse graphs are the dense ones, entry by entry."""

import typing

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.graphs import sparse_graph
from clustering.graphs.dense_graph import DenseGraph, Symmetry
from clustering.graphs.neighbourhood import nearest_arcs, neighbour_graph
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.descent import descend
from clustering.optimiser.points import Features, Gram
from clustering.optimiser.terms import Laplacian

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
    include_self=st.booleans(),
    pad=st.booleans(),
)
def test_it_is_the_dense_graph(
    seed: int, points: int, k: int, symmetry: Symmetry, include_self: bool, pad: bool
) -> None:
    x = draw(seed, points=points)
    valid = torch.rand(3, points, generator=torch.Generator().manual_seed(seed)) < 0.7 if pad else None
    sparse, dense = two_graphs(x, k, symmetry=symmetry, include_self=include_self, valid=valid)
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


@pytest.mark.parametrize("points_first", [True, False])
def test_products_some_classes_at_a_time(points_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, dense = two_graphs(draw(5), 3)
    S = torch.rand(3, 9, 11, dtype=torch.float64)
    S = S if points_first else S.mT.contiguous().mT
    whole = sparse @ S
    monkeypatch.setattr(sparse_graph, "_CACHED", 1)
    monkeypatch.setattr(sparse_graph, "_FEWEST", 4)
    assert torch.equal(sparse @ S, whole)
    torch.testing.assert_close(whole, dense @ S)


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_weights_of_arcs_both_ways_are_joined(symmetry: Symmetry) -> None:
    arcs = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 5.0], [7.0, 0.0, 0.0]])
    indices, weights = torch.tensor([[[1, -1], [0, 2], [0, -1]]]), torch.tensor([[[2.0, 9.0], [3.0, 5.0], [7.0, 9.0]]])
    expected = {
        "directed": arcs,
        "average": (arcs + arcs.T) / 2,
        "union": torch.maximum(arcs, arcs.T),
        "mutual": torch.minimum(arcs, arcs.T),
    }
    assert torch.equal(as_matrix(SparseGraph.of_arcs(indices, weights, symmetry))[0], expected[symmetry])


@pytest.mark.parametrize("form", [Features, lambda x: Gram(x @ x.mT)], ids=["features", "inner products"])
def test_arcs_and_their_lengths(form: typing.Any) -> None:
    x = draw(3)
    distances = ((x[:, :, None] - x[:, None]) ** 2).sum(3)
    shortest = distances.sort(dim=2).values[:, :, 1:3]
    arcs = nearest_arcs(form(x), 2)
    assert arcs.number.tolist() == [18.0] * 3
    torch.testing.assert_close(arcs.squared_lengths, shortest.sum((1, 2)))
    assert (arcs.graph("average", torch.float32) @ torch.ones(3, 9, 1)).dtype == torch.float32
    assert bool((nearest_arcs(form(x), 2, include_self=True).number == 9).all())


def test_a_graph_without_arcs() -> None:
    graph = neighbour_graph(Features(draw(4, points=1)), 3)
    S = torch.rand(3, 1, 2, dtype=torch.float64)
    assert torch.equal(graph @ S, torch.zeros_like(S))
    graph = neighbour_graph(Features(draw(4)), 3, valid=torch.zeros(3, 9, dtype=torch.bool))
    S = torch.rand(3, 9, 2, dtype=torch.float64)
    assert torch.equal(graph @ S, torch.zeros_like(S))


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000), weight=st.floats(0.1, 20))
def test_the_objective_never_rises(seed: int, weight: float) -> None:
    x = draw(seed, batch=2, points=30).float()
    cost = torch.rand(2, 30, 4, generator=torch.Generator().manual_seed(seed))
    sparse, dense = two_graphs(x, 4)
    found, other = (descend(cost, [Laplacian(graph, weight)], trace=True) for graph in (sparse, dense))
    assert found.trace is not None
    rises = found.trace.diff(dim=0)
    assert bool((rises[~rises.isnan()] <= 1e-4).all())
    torch.testing.assert_close(found.objective, other.objective, atol=1e-3, rtol=1e-5)
