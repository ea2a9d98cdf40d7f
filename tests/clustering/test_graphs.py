"""Graphs of neighbours: searches and symmetries against loops, sparse and dense alike, propagation, moves of points."""

import typing
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from clustering import SLK
from clustering.foundation.errors import InputError
from clustering.graphs import knn
from clustering.graphs import neighbours as module
from clustering.graphs.dense_graph import DenseGraph, Symmetry
from clustering.graphs.knn import nearest_neighbours
from clustering.graphs.neighbourhood import neighbour_graph
from clustering.graphs.neighbours import Search, nearest_rows, nearest_to, neighbours
from clustering.graphs.point_moves import single_moves
from clustering.graphs.propagation import DensePropagation, SparsePropagation
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.points import Features, Gram
from tests.oracles import nearest_loops as oracle

SEARCHES: tuple[Search, ...] = ("tree", "blocks", "hnsw")
SYMMETRIES: tuple[Symmetry, ...] = typing.get_args(Symmetry)


def draw(points: int = 400, columns: int = 6, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(points, columns)).astype(np.float32)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    points=st.integers(2, 12),
    k=st.integers(1, 11),
    integers=st.booleans(),
    search=st.sampled_from(["tree", "blocks"]),
    at_once=st.sampled_from([1, 5, 1 << 14]),
)
def test_exact_searches_agree_with_a_loop(
    seed: int, points: int, k: int, integers: bool, search: Any, at_once: int
) -> None:
    x = oracle.draw(seed, points, integers, pad=False)[0][:1]
    k = min(k, points - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_AT_ONCE", at_once)
        patch.setattr(module, "_SPARE", points)  # ties of any number are told apart
        found = nearest_rows(x[0], k, search)
    expected = oracle.nearest(x, k, torch.ones(1, points, dtype=torch.bool))[0]
    np.testing.assert_allclose(found.squared_distances, [[far for far, _ in row] for row in expected], atol=1e-12)
    if search == "tree" or points <= k + 5:  # all are candidates
        assert found.indices.tolist() == [[q for _, q in row] for row in expected]
    assert (found.indices != np.arange(points)[:, None]).all()
    assert found.recall == 1


@pytest.mark.parametrize("columns", [3, 12])
@pytest.mark.parametrize("offset", [0, 1000])
def test_searches_agree(columns: int, offset: float) -> None:
    x = torch.from_numpy(draw(columns=columns) + np.float32(offset))
    tree, blocks, worlds = (nearest_rows(x, 7, search) for search in SEARCHES)
    np.testing.assert_array_equal(tree.indices, blocks.indices)
    np.testing.assert_allclose(tree.squared_distances, blocks.squared_distances, rtol=1e-4)
    assert tree.indices.dtype == np.int32
    missed = (tree.indices[:, :, None] != worlds.indices[:, None]).all(axis=2)
    assert missed.mean() <= 0.02  # of 400 points that are all in reach
    assert not (np.diff(worlds.squared_distances, axis=1) < 0).any()


def test_small_worlds_report_the_recall_that_they_have_and_do_not_depend_on_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.from_numpy(draw(3000, 30))
    exact, good = nearest_rows(x, 5, "blocks"), nearest_rows(x, 5, "hnsw")
    assert good.recall >= 0.99
    monkeypatch.setattr(module, "_BREADTHS", (1,))
    with pytest.warns(UserWarning, match=r"HNSW .*\d\d%"):
        poor = nearest_rows(x, 5, "hnsw")
    recall = (poor.indices[:, :, None] == exact.indices[:, None]).any(axis=2).mean()
    assert recall < 0.9  # as it was made to be
    assert abs(poor.recall - recall) < 0.08
    monkeypatch.undo()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3 - min(before, 2))
        np.testing.assert_array_equal(nearest_rows(x, 5, "hnsw").indices, good.indices)
    finally:
        torch.set_num_threads(before)


def test_more_arcs_than_indices_can_name_are_refused_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ARCS", 1000)
    with pytest.raises(InputError, match=r"400 points .*4,000 arcs.*k=1"):
        neighbours(draw(), 5)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    points=st.integers(1, 9),
    k=st.integers(1, 12),
    symmetry=st.sampled_from(SYMMETRIES),
)
def test_arcs_become_weights(seed: int, points: int, k: int, symmetry: Symmetry) -> None:
    x = oracle.draw(seed, points, integers=False, pad=False)[0][:1]
    near = neighbours(x[0], k, symmetry=symmetry)
    arcs, lengths = np.zeros((points, points)), []
    rows = oracle.nearest(x, min(k, points - 1), torch.ones(1, points, dtype=torch.bool))[0]
    lengths = [far for row in rows for far, _ in row]
    mean = float(np.mean(lengths)) if lengths else 0.0
    for p, row in enumerate(rows):
        for _, q in row:
            arcs[p, q] = 1
    combined = {
        "directed": arcs,
        "average": (arcs + arcs.T) / 2,
        "union": np.maximum(arcs, arcs.T),
        "mutual": np.minimum(arcs, arcs.T),
    }
    np.testing.assert_allclose(near.graph.matrix().toarray(), combined[symmetry], rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(near.mean_squared_distance, mean, rtol=1e-9)
    assert near.graph.columns.dtype == near.graph.pointers.dtype == torch.int32
    assert near.graph.symmetric == (symmetry != "directed")
    assert (near.graph.points, near.recall) == (points, 1)
    for row in range(points):
        assert (near.graph.columns[near.graph.pointers[row] : near.graph.pointers[row + 1]].diff() > 0).all()


def test_points_beside_others_find_the_nearest_of_them() -> None:
    points, queries = torch.from_numpy(draw(90)), torch.from_numpy(draw(20, seed=1))
    far = ((queries[:, None] - points) ** 2).sum(2)
    for columns in (6, 18):  # by the tree, and by blocks
        padded = [torch.nn.functional.pad(x, (0, columns - 6)) for x in (points, queries)]
        assert torch.equal(nearest_to(*padded, 3), far.topk(3, largest=False).indices)
        assert nearest_to(*padded, 200).shape == (20, 90)


def test_estimators_take_it_with_its_bandwidth() -> None:
    x = draw()
    near = neighbours(x, 5)
    slk = SLK(3, weight=0.3, n_init=1, random_state=0)
    built, given = clone(slk).fit(x), clone(slk).fit(x, graph=near)
    assert built.bandwidth_ == given.bandwidth_ == near.mean_squared_distance**0.5
    np.testing.assert_array_equal(built.labels_, given.labels_)
    slk.set_params(normalize="l2")
    turned = clone(slk).fit(x, graph=near)  # of other rows: measured on those at hand
    assert turned.bandwidth_ != given.bandwidth_
    assert turned.bandwidth_ == clone(slk).fit(x, graph=near.graph).bandwidth_
    with pytest.raises(InputError, match=r"400 points.*399"):
        SLK(3).fit(x[1:], graph=near)


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (draw(), {"k": 0}, "k must be"),
        (draw(), {"symmetry": "both"}, "symmetry"),
        (draw(), {"method": "flann"}, "method"),
        (sparse.csr_array(draw()), {}, "dense table"),
        (draw() + 1j, {}, "complex"),
        (draw() * 1e30, {}, "squares"),
        (draw()[0], {}, r"\(N, D\)"),
        (draw()[:0], {}, r"\(N, D\)"),
        (np.array([["a", "b"]]), {}, "table of numbers"),
        (np.where(np.arange(400)[:, None] == 7, np.nan, draw()), {}, "row 7"),
    ],
)
def test_what_cannot_be(X: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        neighbours(X, **options)


def test_large_integers_keep_their_digits():
    times = 1_700_000_000 + 60 * np.arange(60)[:, None]
    found, small = neighbours(times, 3), neighbours(times - times[0], 3)
    assert found.mean_squared_distance == small.mean_squared_distance > 0
    assert neighbours(torch.from_numpy(times), 3).mean_squared_distance == small.mean_squared_distance


@settings(deadline=None, max_examples=50)
@given(
    **oracle.CASES,
    block=st.sampled_from([1, 40, 1 << 24]),
    rows=st.sampled_from([1, 3, 10, 1024]),
    group=st.sampled_from([1, 2, 32]),
)
def test_nearest_neighbours_agree_with_a_loop(
    seed: int, points: int, k: int, integers: bool, pad: bool, block: int, rows: int, group: int
) -> None:
    x, valid = oracle.draw(seed, points, integers, pad)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knn, "_BLOCK", block)
        patch.setattr(knn, "_ROWS", rows)
        patch.setattr(knn, "_GROUP", group)
        patch.setattr(knn, "_GATHERED", block)
        found = nearest_neighbours(x, k, valid=valid if pad else None)
    assert found.indices.shape == found.squared_distances.shape == (3, points, min(k, points - 1))
    for b, tasks in enumerate(oracle.nearest(x, k, valid)):
        for p, expected in enumerate(tasks):
            here = found.present[b, p]
            assert found.indices[b, p][here].tolist() == [q for _, q in expected]
            distances = torch.tensor([distance for distance, _ in expected], dtype=torch.float64)
            torch.testing.assert_close(found.squared_distances[b, p][here], distances)
            assert not found.squared_distances[b, p][~here].any()


@pytest.mark.parametrize("rows", [7, 1024])
def test_many_points_against_all_distances(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that groups of columns stand for their smallest, in blocks that cut the diagonal."""
    monkeypatch.setattr(knn, "_ROWS", rows)
    monkeypatch.setattr(knn, "_BLOCK", 1 << 13)
    x = torch.randn(2, 700, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    far = torch.cdist(x, x).square()
    far.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    expected = far.topk(5, dim=2, largest=False)
    found = nearest_neighbours(x, 5)
    torch.testing.assert_close(found.squared_distances, expected.values)
    assert torch.equal(found.indices, expected.indices)


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


@settings(deadline=None, max_examples=25)
@given(**oracle.CASES, symmetry=st.sampled_from(SYMMETRIES))
def test_it_is_the_dense_graph(seed: int, points: int, k: int, integers: bool, pad: bool, symmetry: Symmetry) -> None:
    x, valid = oracle.draw(seed, points, integers, pad)
    valid = valid if pad else None
    sparse, dense = (neighbour_graph(form, k, symmetry=symmetry, valid=valid) for form in (Features(x), Gram(x @ x.mT)))
    assert isinstance(sparse, SparseGraph)
    assert isinstance(dense, DenseGraph)
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


def draw_propagation(seed: int, alpha: float, own: bool) -> tuple[SparsePropagation, DensePropagation]:
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
    sparse, dense = draw_propagation(seed, alpha, own)
    labels = torch.nn.functional.one_hot(torch.arange(12) % 4, 5).T.float().expand(2, 5, 12) * (torch.arange(12) < 6)
    assert not labels[:, 4].any()  # a class without a label
    found = sparse.spread(labels)
    torch.testing.assert_close(found, dense.spread(labels), atol=1e-4, rtol=1e-4)
    assert not found[:, 4].any()
    second = torch.tensor([1])
    torch.testing.assert_close(sparse.select(second).spread(labels[second]), found[second])
    torch.testing.assert_close(dense.select(second).spread(labels[second]), dense.spread(labels)[second])


def by_loops(A: NDArray[np.float64], weights: NDArray[np.float64], labels: NDArray[np.int64], K: int) -> float:
    """-sum_k S_k^T A S_k / w^T S_k."""
    objective = 0.0
    for k in range(K):
        members = [p for p in range(len(labels)) if labels[p] == k]
        mass = sum(weights[p] for p in members)
        objective -= sum(A[p, q] for p in members for q in members) / mass if members else 0.0
    return objective


def kernel(seed: int, points: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    A = generator.random((points, points)) * (generator.random((points, points)) < 0.3)
    return A + A.T


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000), K=st.integers(1, 4), constant=st.sampled_from([0.0, 0.05]), unit=st.booleans())
def test_no_move_of_a_point_lowers_the_objective_further(seed: int, K: int, constant: float, unit: bool) -> None:
    points = 12
    A = kernel(seed, points)
    whole = A + constant
    weights = np.ones(points) if unit else whole.sum(axis=1) + 0.1
    first = np.random.default_rng(seed).integers(K, size=points)
    moved = single_moves(sparse.csr_array(A), weights, first, K, 100, constant=constant)
    assert moved.converged
    assert len(set(moved.labels)) == K
    objective = by_loops(whole, weights, moved.labels, K)
    if len(set(first)) == K:
        assert objective <= by_loops(whole, weights, first, K) + 1e-9
    sizes = np.bincount(moved.labels, minlength=K)
    for p in range(points):
        for k in range(K):
            if sizes[moved.labels[p]] > 1:
                other = moved.labels.copy()
                other[p] = k
                assert by_loops(whole, weights, other, K) >= objective - 1e-8
