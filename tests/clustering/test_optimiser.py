"""The one optimiser and its parts: points, prototypes, terms, transport, pseudo-labels, descent, against loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clustering.foundation.streams import stream
from clustering.graphs.dense_graph import DenseGraph
from clustering.optimiser.descent import descend
from clustering.optimiser.guard import Status
from clustering.optimiser.points import (
    Features,
)
from clustering.optimiser.prototypes import best_assigned
from clustering.optimiser.pseudo_labels import adm
from clustering.optimiser.rows import Rows
from clustering.optimiser.terms import Laplacian
from clustering.optimiser.transport import sinkhorn
from clustering.seeding import plus_plus
from tests.oracles import information_loops

DOUBLE = torch.float64


def random_graph(seed: int, batch: int, points: int, k: int, dtype: torch.dtype = DOUBLE) -> DenseGraph:
    x = torch.randn(batch, points, 4, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return DenseGraph.of_points(Features(x), k)


def random_cost(seed: int, batch: int, points: int, classes: int, dtype: torch.dtype = DOUBLE) -> Tensor:
    return torch.rand(batch, points, classes, generator=torch.Generator().manual_seed(seed + 1), dtype=dtype) * 3


def objective(S: Tensor, cost: Tensor, W: Tensor, weight: float) -> Tensor:
    """R written out, in float64."""
    S, cost, W = S.double(), cost.double(), W.double()
    return (S * cost).sum((1, 2)) + torch.xlogy(S, S).sum((1, 2)) - weight / 2 * (S * (W @ S)).sum((1, 2))


def rises(trace: Tensor, tolerance: Tensor) -> bool:
    steps = trace[1:] - trace[:-1]
    return bool((steps[~steps.isnan()] > tolerance).any())


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    weight=st.floats(0.1, 20),
    k=st.integers(1, 8),
    classes=st.integers(1, 6),
    from_random=st.booleans(),
)
def test_the_objective_never_rises(seed: int, weight: float, k: int, classes: int, from_random: bool) -> None:
    graph, cost = random_graph(seed, 6, 15, k), random_cost(seed, 6, 15, classes)
    start = torch.softmax(8 * random_cost(seed + 7, 6, 15, classes), -1) if from_random else None
    found = descend(cost, [Laplacian(graph, weight)], start=start, trace=True, max_iterations=300)
    assert found.trace is not None
    assert not rises(found.trace, 1e-10 * (1 + found.trace.nan_to_num().abs().max()))
    torch.testing.assert_close(found.assignments.sum(-1), torch.ones(6, 15, dtype=DOUBLE))
    torch.testing.assert_close(found.objective, objective(found.assignments, cost, graph.weights, weight))
    assert bool((found.status != Status.STEP_FAILED).all())


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10_000), weight=st.floats(0, 20))
def test_it_stops_at_stationary_points(seed: int, weight: float) -> None:
    """By Pinsker, the fixed-point residual is at most sqrt(gap / 2)."""
    graph, cost = random_graph(seed, 5, 12, 3), random_cost(seed, 5, 12, 4)
    found = descend(cost, [Laplacian(graph, weight)], max_iterations=3000, tolerance=1e-10, gap_tolerance=1e-9)
    assert bool(found.converged.all())
    fixed = torch.softmax(-cost + weight * (graph @ found.assignments), dim=-1)
    residual = (found.assignments - fixed).abs().amax((1, 2))
    assert bool((residual <= (found.gap / 2).sqrt() + 1e-7).all())
    assert bool((residual < 1e-3).all())


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10_000), weight=st.floats(0.1, 5))
def test_clamped_rows_stay_one_hot(seed: int, weight: float) -> None:
    graph, cost = random_graph(seed, 3, 12, 3), random_cost(seed, 3, 12, 3)
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(3, 12, generator=generator) < 0.4
    labels = torch.randint(0, 3, (3, 12), generator=generator)
    found = descend(cost, [Laplacian(graph, weight)], clamp=(mask, labels), trace=True, max_iterations=300)
    one_hot = torch.nn.functional.one_hot(labels, 3).double()
    assert torch.equal(found.assignments[mask], one_hot[mask])
    assert not rises(found.trace, torch.tensor(1e-9))  # type: ignore[arg-type]
    fixed = torch.softmax(-cost + weight * (graph @ found.assignments), dim=-1)
    torch.testing.assert_close(found.assignments[~mask], fixed[~mask], atol=2e-2, rtol=0)
    torch.testing.assert_close(found.objective, objective(found.assignments, cost, graph.weights, weight))


def test_by_product_modes_rank_saturated_assignments() -> None:
    logits = torch.tensor([[[60.0, 90.0, 70.0, 0.0], [0.0, 0.0, 0.0, 5.0]]])
    members = torch.tensor([[[True, True, True, False], [False, False, False, True]]])
    assert float(torch.softmax(logits, 1)[0, 0, 0]) == 1.0
    assert best_assigned(logits, members).tolist() == [[1, 3]]
    assert best_assigned(torch.zeros_like(logits), members).tolist() == [[0, 3]]


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), count=st.integers(1, 8))
def test_seeds_are_distinct_points_and_each_trial_has_its_own_stream(seed: int, count: int) -> None:
    x = draw(seed, 40, 3)
    x[8:] = x[:8].repeat(4, 1)  # eight distinct points
    rows = Rows.of(x)
    found = plus_plus(rows, count, [stream(seed, "seeds", trial) for trial in range(3)])
    for trial in range(3):
        assert len(rows.at(found[trial]).unique(dim=0)) == count
        alone = plus_plus(rows, count, [stream(seed, "seeds", trial)])
        assert alone[0].tolist() == found[trial].tolist()


def draw_transport(
    seed: int, scale: float = 3.0, batch: int = 3, points: int = 8, classes: int = 4
) -> list[torch.Tensor]:
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


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100_000), scale=st.sampled_from([0.1, 1.0, 3.0]), points=st.integers(1, 9))
def test_the_plan_is_the_scores_with_scaled_rows_and_columns(seed: int, scale: float, points: int) -> None:
    """Which, with the right sums, there is one of."""
    scores, rows, columns = draw_transport(seed, scale, points=points)
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


def draw_adm(seed: int, batch: int = 2, points: int = 7, classes: int = 3, scale: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    return torch.log_softmax(scores, dim=-1)


some_weights = {"marginal": st.floats(0, 10), "conditional": st.floats(0, 3), "divergence": st.floats(0.3, 3)}


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100_000), **some_weights)
def test_pseudo_labels_agree_with_loops(seed: int, **weights: float) -> None:
    log_p = draw_adm(seed)
    found = adm(log_p, **weights)
    expected = [information_loops.adm(task.exp().tolist(), **weights) for task in log_p]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(adm(log_p[0], **weights), found[0])


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 100_000), with_known=st.booleans(), **some_weights)
def test_a_prior_and_known_rows(seed: int, with_known: bool, **weights: float) -> None:
    """Corrections end where log q - a log p + r log(qbar / u) of an unknown row are alike; the closed form is near."""
    log_p = draw_adm(seed)
    prior = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], dtype=torch.float64)
    mask = torch.arange(7).expand(2, -1) < (2 if with_known else 0)
    labels = torch.tensor([2, 0, 0, 0, 0, 0, 0]).expand(2, -1)
    q = adm(log_p, prior=prior, known=(mask, labels), corrections=500, **weights)
    a, r = 1 + weights["conditional"] / weights["divergence"], weights["marginal"] / weights["divergence"]
    residual = (q.log() - a * log_p + r * (q.mean(dim=-2) / prior).log()[:, None])[~mask]
    assert float((residual - residual.mean(-1, keepdim=True)).abs().max()) < 1e-6
    one_hot = torch.nn.functional.one_hot(labels, 3).double()
    assert torch.equal(q[mask], one_hot[mask])
    near = adm(log_p, prior=prior, known=(mask, labels), **weights)
    assert torch.equal(near[mask], one_hot[mask])
    alone = adm(log_p[0], prior=prior[0], known=(mask[0], labels[0]), **weights)
    torch.testing.assert_close(alone, near[0])
