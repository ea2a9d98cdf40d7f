"""Nearest neighbours against a loop, with ties, duplicates, padding, and however the rows fall into blocks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.graphs import knn
from clustering.graphs.knn import nearest_neighbours
from tests.oracles import nearest_loops as oracle


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


def test_many_duplicates_are_each_others_neighbours_and_never_their_own() -> None:
    """More of them than candidates are looked at: found by distance 0, and the point itself is not among them."""
    x = torch.randn(1, 60, 7, generator=torch.Generator().manual_seed(0))
    x[:, 10:40] = x[:, 10:11]
    found = nearest_neighbours(x, 5)
    assert bool((found.indices != torch.arange(60)[:, None]).all())
    assert bool((found.squared_distances[:, 10:40] == 0).all())
    assert bool(((found.indices[:, 10:40] >= 10) & (found.indices[:, 10:40] < 40)).all())
    distinct = found.indices.sort(dim=2).values.diff(dim=2)
    assert bool((distinct > 0).all())


@pytest.mark.parametrize("points", [40, 1500])
def test_neighbours_of_unit_points_are_those_of_the_largest_inner_product(points: int) -> None:
    generator = torch.Generator().manual_seed(0)
    # Norms slightly above 1 change the order of distances but not that of products.
    x = torch.nn.functional.normalize(torch.randn(2, points, 8, generator=generator, dtype=torch.float64), dim=2)
    x = x * (1 + 0.05 * torch.rand(2, points, 1, generator=generator, dtype=torch.float64))
    products = torch.bmm(x, x.mT)
    products.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
    best = products.topk(3, dim=2)
    near = nearest_neighbours(x, 3, unit=True)
    assert torch.equal(near.indices, best.indices)
    assert torch.allclose(near.squared_distances, 2 - 2 * best.values, atol=1e-12)
    assert not torch.equal(nearest_neighbours(x, 3).indices, best.indices)


def test_single_precision_distances_are_those_of_differences() -> None:
    """Points far from the origin and near each other, whose squared norms leave no digits for the distance."""
    centre = torch.full((5,), 300.0)
    x = (centre + 0.01 * torch.randn(1, 6, 5, generator=torch.Generator().manual_seed(1))).float()
    found = nearest_neighbours(x, 3)
    exact = nearest_neighbours(x.double(), 3)
    assert torch.equal(found.indices, exact.indices)
    torch.testing.assert_close(found.squared_distances.double(), exact.squared_distances)


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


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), width=st.integers(1, 90), count=st.integers(1, 9), group=st.integers(1, 5))
def test_the_smallest_are_found_by_groups(seed: int, width: int, count: int, group: int) -> None:
    far = torch.randint(6, (2, 3, width), generator=torch.Generator().manual_seed(seed)).float()
    far[far == 5] = torch.inf
    count = min(count, width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knn, "_GROUP", group)
        values, places = knn._smallest(far, count)
    assert torch.equal(values.sort(dim=2).values, far.sort(dim=2).values[..., :count])
    assert torch.equal(far.gather(2, places), values)
    assert bool((places.sort(dim=2).values.diff(dim=2) > 0).all())
