"""Sinkhorn: marginals, agreement with loops, extreme scores, masses of 0, batches."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.pseudo_labels import sinkhorn
from tests.oracles import transport_loops as oracle


def draw(seed: int, scale: float = 3.0, batch: int = 3, points: int = 8, classes: int = 4) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    rows = 0.2 + torch.rand(batch, points, generator=generator, dtype=torch.float64)
    columns = 0.2 + torch.rand(batch, classes, generator=generator, dtype=torch.float64)
    return [scores, rows, columns * (rows.sum(1) / columns.sum(1))[:, None]]


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100_000), scale=st.sampled_from([0.1, 1.0]), points=st.integers(1, 9))
def test_it_agrees_with_loops(seed: int, scale: float, points: int) -> None:
    scores, rows, columns = draw(seed, scale, points=points)
    found = sinkhorn(scores, rows, columns, tolerance=1e-13)
    for i in range(3):
        expected = oracle.sinkhorn(scores[i].tolist(), rows[i].tolist(), columns[i].tolist(), 200)
        plan = found.assignments[i] * rows[i][:, None]
        torch.testing.assert_close(plan, torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 100_000), scale=st.sampled_from([0.1, 1.0, 3.0]), points=st.integers(1, 9))
def test_the_plan_is_the_scores_with_scaled_rows_and_columns(seed: int, scale: float, points: int) -> None:
    """Which, with the right sums, there is one of."""
    scores, rows, columns = draw(seed, scale, points=points)
    found = sinkhorn(scores, rows, columns)
    assert bool(found.converged.all())
    expected = torch.softmax(scores + found.log_scales[:, None], dim=2)
    torch.testing.assert_close(found.assignments, expected)
    masses = (found.assignments * rows[..., None]).sum(1)
    assert float((masses - columns).abs().max()) <= 1.1e-6 * float(rows.sum(1).max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 100_000), scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_the_sums_are_as_asked(dtype: torch.dtype, seed: int, scale: float) -> None:
    scores, rows, columns = (part.to(dtype) for part in draw(seed, scale, points=75, classes=5))
    found = sinkhorn(scores, rows, columns)
    assert bool(found.converged.all())
    plan = found.assignments * rows[..., None]
    torch.testing.assert_close(plan.sum(2), rows)
    assert float((plan.sum(1) - columns).abs().max()) <= 2e-6 * float(rows.sum(1).max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_column_far_from_every_point_is_reached(dtype: torch.dtype) -> None:
    """exp(-3000) is 0 in every precision: a linear round would never find the column again."""
    scores = torch.zeros(1, 6, 3, dtype=dtype)
    scores[..., 2] = torch.linspace(-3000, -2990, 6, dtype=dtype)
    found = sinkhorn(scores, torch.ones(1, 6, dtype=dtype), torch.full((1, 3), 2.0, dtype=dtype))
    assert bool(found.converged.all())
    assert int(found.rounds) < 20
    torch.testing.assert_close(found.assignments.sum(1), torch.full((1, 3), 2.0, dtype=dtype), atol=1e-4, rtol=0)


def test_what_has_no_mass_changes_nothing() -> None:
    scores, rows, columns = draw(3)
    rows[:, 5:] = 0
    columns[:, 1] = 0
    found = sinkhorn(scores, rows, columns)
    fewer = sinkhorn(scores[:, :5, [0, 2, 3]], rows[:, :5], columns[:, [0, 2, 3]])
    torch.testing.assert_close(found.assignments[:, :5, [0, 2, 3]], fewer.assignments, atol=1e-5, rtol=0)
    assert float(found.assignments[:, :5, 1].max()) < 1e-6
    torch.testing.assert_close(found.assignments.sum(2), torch.ones(3, 8, dtype=torch.float64))


@pytest.mark.parametrize("rows", [0.0, 1.0])
def test_no_mass_at_all_and_one_class(rows: float) -> None:
    scores = torch.randn(2, 4, 3)
    assert bool(sinkhorn(scores, torch.full((2, 4), rows), torch.zeros(2, 3)).assignments.isfinite().all())
    alone = sinkhorn(scores[..., :1], torch.full((2, 4), rows), torch.ones(2, 1))
    assert torch.equal(alone.assignments, torch.ones(2, 4, 1))


def test_problems_do_not_see_their_batch() -> None:
    scores, rows, columns = draw(5, scale=10.0)
    together = sinkhorn(scores, rows, columns)
    alone = [sinkhorn(scores[i], rows[i], columns[i]) for i in range(3)]
    torch.testing.assert_close(torch.stack([a.assignments for a in alone]), together.assignments)
    assert torch.equal(torch.stack([a.rounds for a in alone]), together.rounds)


def test_a_warm_start_ends_at_once_in_the_same_plan() -> None:
    scores, rows, columns = draw(6)
    cold = sinkhorn(scores, rows, columns)
    warm = sinkhorn(scores, rows, columns, start=cold.log_scales)
    assert int(warm.rounds.max()) <= 1
    assert int(cold.rounds.min()) > 2
    torch.testing.assert_close(warm.assignments, cold.assignments, atol=1e-5, rtol=0)
