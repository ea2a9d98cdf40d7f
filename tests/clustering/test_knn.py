"""Nearest neighbours against a loop, with ties, duplicates, padding, and however the rows fall into blocks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering import knn
from clustering.knn import nearest_neighbours
from tests.oracles import nearest_loops as oracle


@settings(deadline=None, max_examples=60)
@given(**oracle.CASES, block=st.sampled_from([1, 40, 1 << 24]))
def test_nearest_neighbours_agree_with_a_loop(
    seed: int, points: int, k: int, integers: bool, pad: bool, block: int
) -> None:
    x, valid = oracle.draw(seed, points, integers, pad)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knn, "_BLOCK", block)
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


def test_single_precision_distances_are_those_of_differences() -> None:
    """Points far from the origin and near each other, whose squared norms leave no digits for the distance."""
    centre = torch.full((5,), 300.0)
    x = (centre + 0.01 * torch.randn(1, 6, 5, generator=torch.Generator().manual_seed(1))).float()
    found = nearest_neighbours(x, 3)
    exact = nearest_neighbours(x.double(), 3)
    assert torch.equal(found.indices, exact.indices)
    torch.testing.assert_close(found.squared_distances.double(), exact.squared_distances)
