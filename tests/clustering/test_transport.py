"""Transport: marginals, loops, a linear program and plain rounds agree; extreme scores, masses of 0, batches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from clustering.optimiser import transport
from clustering.optimiser.transport import sinkhorn
from tests.oracles import transport_loops as oracle


def draw(seed: int, scale: float = 3.0, batch: int = 3, points: int = 8, classes: int = 4) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    rows = 0.2 + torch.rand(batch, points, generator=generator, dtype=torch.float64)
    columns = 0.2 + torch.rand(batch, classes, generator=generator, dtype=torch.float64)
    return [scores, rows, columns * (rows.sum(1) / columns.sum(1))[:, None]]


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 100_000), scale=st.sampled_from([0.1, 1.0]), points=st.integers(1, 9))
def test_it_agrees_with_loops(seed: int, scale: float, points: int) -> None:
    scores, rows, columns = draw(seed, scale, points=points)
    found = sinkhorn(scores, rows, columns, tolerance=1e-13)
    for i in range(3):
        expected = oracle.sinkhorn(scores[i].tolist(), rows[i].tolist(), columns[i].tolist(), 200)
        plan = found.assignments[i] * rows[i][:, None]
        torch.testing.assert_close(plan, torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=1e-6)


@settings(deadline=None, max_examples=20)
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
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 100_000), scale=st.sampled_from([0.1, 1.0, 5.0]))
def test_the_sums_are_as_asked(dtype: torch.dtype, seed: int, scale: float) -> None:
    scores, rows, columns = (part.to(dtype) for part in draw(seed, scale, points=75, classes=5))
    found = sinkhorn(scores, rows, columns)
    assert bool(found.converged.all())
    plan = found.assignments * rows[..., None]
    torch.testing.assert_close(plan.sum(2), rows)
    assert float((plan.sum(1) - columns).abs().max()) <= 2e-6 * float(rows.sum(1).max())


def confident(seed: int, sharpness: float, batch: int = 3, points: int = 60, classes: int = 5) -> list[torch.Tensor]:
    """Predictions that are sure of nearly every point, and masses that are nothing like what they predict."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    logits += torch.randn(batch, 1, classes, generator=generator, dtype=torch.float64)
    rows = 0.2 + torch.rand(batch, points, generator=generator, dtype=torch.float64)
    columns = torch.rand(batch, classes, generator=generator, dtype=torch.float64) ** 3 + 1e-3
    return [sharpness * torch.log_softmax(logits, 2), rows, columns * (rows.sum(1) / columns.sum(1))[:, None]]


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 100_000), sharpness=st.sampled_from([25.0, 100.0, 300.0]))
def test_confident_predictions_are_fitted_to_masses_that_they_are_far_from(seed: int, sharpness: float) -> None:
    """Rounds alone are not there after a thousand of them."""
    scores, rows, columns = confident(seed, sharpness)
    found = sinkhorn(scores, rows, columns, max_rounds=1)
    assert bool(found.converged.all())
    masses = (found.assignments * rows[..., None]).sum(1)
    assert float(((masses - columns).abs().amax(1) / rows.sum(1)).max()) <= 1.01e-6


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 100_000), sharpness=st.sampled_from([30.0, 300.0]))
def test_sharp_scores_give_the_plan_of_least_cost(seed: int, sharpness: float) -> None:
    """Of all plans none gains more than the entropy, which is at most log K a unit of mass."""
    scores, rows, columns = confident(seed, 1.0, batch=2, points=12, classes=3)
    found = sinkhorn(sharpness * scores, rows, columns, tolerance=1e-9)
    assert bool(found.converged.all())
    sums = np.concatenate([np.kron(np.eye(12), np.ones((1, 3))), np.kron(np.ones((1, 12)), np.eye(3))])
    for i in range(2):
        best = -linprog(-scores[i].numpy().ravel(), A_eq=sums, b_eq=torch.cat([rows[i], columns[i]]).numpy()).fun
        gained = float((found.assignments[i] * rows[i][:, None] * scores[i]).sum())
        assert best - float(rows[i].sum()) * np.log(3) / sharpness <= gained + 1e-5 <= best + 2e-5


@pytest.mark.parametrize("classes", [4, 20])
def test_rounds_alone_and_after_newton_steps_that_failed_find_the_same_plan(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, rows, columns = draw(11, scale=2.0, points=50, classes=classes)
    expected = sinkhorn(scores, rows, columns, tolerance=1e-10)
    monkeypatch.setattr(transport, "_newton_step", lambda plan, rows, error, damping: torch.full_like(error, torch.nan))
    failed = sinkhorn(scores, rows, columns, tolerance=1e-10)
    monkeypatch.setattr(transport, "_LARGEST_SYSTEM", 1)
    rounds = sinkhorn(scores, rows, columns, tolerance=1e-10)
    for found in (failed, rounds):
        assert bool(found.converged.all())
        torch.testing.assert_close(found.assignments, expected.assignments, atol=1e-7, rtol=0)
    assert int(rounds.rounds.min()) > int(expected.rounds.max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_cannot_be_reached_is_said_and_finite(dtype: torch.dtype) -> None:
    scores, rows, columns = (part.to(dtype) for part in confident(4, 3000.0))
    for case in (rows, torch.where(torch.arange(60) < 30, rows, 0.0)):
        found = sinkhorn(scores, case, columns, tolerance=0.0, max_rounds=6)
        assert not bool(found.converged.any())
        assert bool(found.assignments.isfinite().all() and found.log_scales.isfinite().all())
        torch.testing.assert_close(found.assignments.sum(2), torch.ones(3, 60, dtype=dtype))
    scores[1, 2, 3] = torch.nan
    assert sinkhorn(scores, rows, columns, tolerance=1e-2).converged.tolist() == [True, False, True]


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
    assert float(found.assignments[:, :, 1].max()) == 0
    torch.testing.assert_close(found.assignments.sum(2), torch.ones(3, 8, dtype=torch.float64))


@pytest.mark.parametrize("rows", [0.0, 1.0])
def test_no_mass_at_all_and_one_class(rows: float) -> None:
    scores = torch.randn(2, 4, 3)
    assert bool(sinkhorn(scores, torch.full((2, 4), rows), torch.zeros(2, 3)).assignments.isfinite().all())
    alone = sinkhorn(scores[..., :1], torch.full((2, 4), rows), torch.ones(2, 1))
    assert torch.equal(alone.assignments, torch.ones(2, 4, 1))


def test_problems_do_not_see_their_batch() -> None:
    """Some of which take a step or two, others many."""
    hard, easy = confident(5, 300.0, batch=2), draw(5, batch=2, points=60, classes=5)
    scores, rows, columns = (torch.cat([a, b])[[0, 2, 1, 3]] for a, b in zip(hard, easy, strict=True))
    together = sinkhorn(scores, rows, columns)
    alone = [sinkhorn(scores[i], rows[i], columns[i]) for i in range(4)]
    torch.testing.assert_close(torch.stack([a.assignments for a in alone]), together.assignments)
    assert int((torch.stack([a.rounds for a in alone]) - together.rounds).abs().max()) <= 1  # where rounding decides
    assert int(together.rounds.max()) > 4 * int(together.rounds.min())
    shaped = sinkhorn(*(part.reshape(2, 2, *part.shape[1:]) for part in (scores, rows, columns)))
    torch.testing.assert_close(shaped.assignments.flatten(0, 1), together.assignments)
    assert shaped.log_scales.shape == (2, 2, 5)


def test_a_warm_start_ends_at_once_in_the_same_plan() -> None:
    scores, rows, columns = draw(6)
    cold = sinkhorn(scores, rows, columns)
    warm = sinkhorn(scores, rows, columns, start=cold.log_scales)
    assert int(warm.rounds.max()) <= 1
    assert int(cold.rounds.min()) > 2
    torch.testing.assert_close(warm.assignments, cold.assignments, atol=1e-5, rtol=0)
