"""kNN graphs against a loop, with ties, padding, and every symmetry."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.graph import nearest, neighbours
from clustering.points import Features, Gram, squared_pairwise


def nearest_by_loops(x: torch.Tensor, k: int, valid: torch.Tensor) -> torch.Tensor:
    """(distance, index) sorted, one point at a time."""
    batch, points, _ = x.shape
    chosen = torch.zeros(batch, points, points, dtype=x.dtype)
    for b in range(batch):
        for p in range(points):
            others = [q for q in range(points) if q != p and bool(valid[b, q])]
            others.sort(key=lambda q: (float(((x[b, p] - x[b, q]) ** 2).sum()), q))
            for q in others[:k]:
                chosen[b, p, q] = 1
    return chosen


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 10_000),
    points=st.integers(1, 9),
    k=st.integers(1, 12),
    integers=st.booleans(),
    pad=st.booleans(),
)
def test_nearest_agrees_with_a_loop(seed: int, points: int, k: int, integers: bool, pad: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, points, 2, generator=generator, dtype=torch.float64)
    if integers:  # exact ties and duplicates
        x = x.round()
    valid = torch.rand(3, points, generator=generator) < 0.7 if pad else torch.ones(3, points, dtype=torch.bool)
    found = nearest(Features(x).dissimilarities(), k, valid=valid if pad else None)
    expected = nearest_by_loops(x, k, valid)
    rows = valid[:, :, None].expand_as(found)
    assert torch.equal(found[rows], expected[rows])


@pytest.mark.parametrize("pad", [False, True])
def test_a_problem_among_many_equals_the_same_alone(pad: bool) -> None:
    """Many are worked on in parts that fit the cache."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 75, 3, generator=generator)
    valid = torch.rand(40, 75, generator=generator) < 0.8 if pad else None
    points = Gram(x @ x.mT)
    together = neighbours(points, 3, first=5, valid=None if valid is None else valid[:, 5:]).weights
    squared = squared_pairwise(points)
    listed = nearest(squared, 3, valid=valid)
    for i in range(40):
        mask = None if valid is None else valid[i : i + 1]
        one = Gram(points.values[i : i + 1])
        alone = neighbours(one, 3, first=5, valid=None if mask is None else mask[:, 5:]).weights
        assert torch.equal(alone[0], together[i])
        assert torch.equal(nearest(squared[i : i + 1], 3, valid=mask)[0], listed[i])
    assert torch.equal(squared, squared_pairwise(points)), "the dissimilarities stay as they are"


def test_symmetries() -> None:
    x = torch.randn(4, 20, 3, generator=torch.Generator().manual_seed(1))
    build = lambda symmetry: neighbours(Features(x), 3, symmetry=symmetry)  # noqa: E731
    directed = build("directed").weights
    assert not build("directed").symmetric
    assert bool((directed.sum(-1) == 3).all())
    assert bool((directed.diagonal(dim1=1, dim2=2) == 0).all())
    assert torch.equal(build("average").weights, (directed + directed.mT) / 2)
    assert torch.equal(build("union").weights, torch.maximum(directed, directed.mT))
    assert torch.equal(build("mutual").weights, directed * directed.mT)


def test_counting_the_point_itself_leaves_one_neighbour_less() -> None:
    x = torch.randn(2, 10, 3, generator=torch.Generator().manual_seed(2))
    published = neighbours(Features(x), 3, symmetry="directed", include_self=True)
    assert bool((published.weights.sum(-1) == 2).all())
    only_itself = neighbours(Features(x), 1, include_self=True)
    assert float(only_itself.weights.sum()) == 0


@pytest.mark.parametrize("symmetry", ["average", "directed"])
def test_the_product_is_the_matrix_product(symmetry: str) -> None:
    x = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(3))
    graph = neighbours(Features(x), 2, symmetry=symmetry)  # type: ignore[arg-type]
    S = torch.softmax(torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(4)), -1)
    torch.testing.assert_close(graph @ S, graph.weights @ S)


def test_more_neighbours_than_points_gives_the_complete_graph() -> None:
    x = torch.randn(1, 4, 2, generator=torch.Generator().manual_seed(5))
    weights = neighbours(Features(x), 10).weights
    assert torch.equal(weights[0], torch.ones(4, 4) - torch.eye(4))
    alone = neighbours(Features(x[:, :1]), 3)
    assert torch.equal(alone.weights, torch.zeros(1, 1, 1))
