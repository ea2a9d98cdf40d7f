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
