"""Transport: marginals, loops, a linear program and plain rounds agree; extreme scores, masses of 0, batches."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.optimiser.transport import sinkhorn
from tests.oracles import transport_loops as oracle


def draw(seed: int, scale: float = 3.0, batch: int = 3, points: int = 8, classes: int = 4) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    rows = 0.2 + torch.rand(batch, points, generator=generator, dtype=torch.float64)
    columns = 0.2 + torch.rand(batch, classes, generator=generator, dtype=torch.float64)
    return [scores, rows, columns * (rows.sum(1) / columns.sum(1))[:, None]]


def confident(seed: int, sharpness: float, batch: int = 3, points: int = 60, classes: int = 5) -> list[torch.Tensor]:
    """Predictions that are sure of nearly every point, and masses that are nothing like what they predict."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    logits += torch.randn(batch, 1, classes, generator=generator, dtype=torch.float64)
    rows = 0.2 + torch.rand(batch, points, generator=generator, dtype=torch.float64)
    columns = torch.rand(batch, classes, generator=generator, dtype=torch.float64) ** 3 + 1e-3
    return [sharpness * torch.log_softmax(logits, 2), rows, columns * (rows.sum(1) / columns.sum(1))[:, None]]


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
def test_what_cannot_be_reached_is_said_and_finite(dtype: torch.dtype) -> None:
    scores, rows, columns = (part.to(dtype) for part in confident(4, 3000.0))
    for case in (rows, torch.where(torch.arange(60) < 30, rows, 0.0)):
        found = sinkhorn(scores, case, columns, tolerance=0.0, max_rounds=6)
        assert not bool(found.converged.any())
        assert bool(found.assignments.isfinite().all() and found.log_scales.isfinite().all())
        torch.testing.assert_close(found.assignments.sum(2), torch.ones(3, 60, dtype=dtype))
    scores[1, 2, 3] = torch.nan
    assert sinkhorn(scores, rows, columns, tolerance=1e-2).converged.tolist() == [True, False, True]
