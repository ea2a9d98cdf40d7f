"""The neighbour graph of a data set: every search against a loop, how arcs become weights."""

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
from clustering.graphs import neighbours as module
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.neighbours import NeighbourGraph, Search, nearest_rows, nearest_to, neighbours
from tests.oracles import nearest_loops as oracle

SEARCHES: tuple[Search, ...] = ("tree", "blocks", "hnsw")
SYMMETRIES: tuple[Symmetry, ...] = typing.get_args(Symmetry)


def draw(points: int = 400, columns: int = 6, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(points, columns)).astype(np.float32)


def dense(near: NeighbourGraph) -> NDArray[np.float32]:
    graph = near.graph
    parts = (graph.weights.numpy(), graph.columns.numpy(), graph.pointers.numpy())
    return np.asarray(sparse.csr_array(parts, shape=(graph.points, graph.points)).toarray())


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
    np.testing.assert_allclose(dense(near), combined[symmetry], rtol=1e-5, atol=1e-30)
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
