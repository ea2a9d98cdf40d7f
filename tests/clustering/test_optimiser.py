"""The one optimiser and its parts: points, prototypes, terms, transport, pseudo-labels, descent, against loops."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clustering.foundation.streams import stream
from clustering.graphs.dense_graph import DenseGraph
from clustering.optimiser import prototypes
from clustering.optimiser.descent import descend
from clustering.optimiser.guard import Status
from clustering.optimiser.objective import Term
from clustering.optimiser.points import (
    Features,
    Gram,
    Points,
    cosines,
    squared_distances,
    squared_pairwise,
)
from clustering.optimiser.prototypes import best_assigned
from clustering.optimiser.pseudo_labels import adm
from clustering.optimiser.rows import Rows
from clustering.optimiser.terms import Laplacian, MixtureEvidence, ProportionEntropy, Scatter
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
def test_a_problem_alone_equals_the_same_in_a_batch(seed: int, weight: float) -> None:
    graph, cost = random_graph(seed, 4, 10, 3), random_cost(seed, 4, 10, 3)
    together = descend(cost, [Laplacian(graph, weight)])
    for i in range(4):
        alone = descend(cost[i : i + 1], [Laplacian(DenseGraph(graph.weights[i : i + 1]), weight)])
        torch.testing.assert_close(alone.assignments[0], together.assignments[i], atol=1e-12, rtol=0)
        assert alone.iterations[0] == together.iterations[i]


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


def test_brute_force_on_a_tiny_problem() -> None:
    """At R's scale the vertices' energies: no vertex lies below the relaxed minimum found from the best vertex."""
    graph, cost = random_graph(11, 1, 5, 2), random_cost(11, 1, 5, 2)
    best = math.inf
    for code in range(2**5):
        labels = torch.tensor([[code >> i & 1 for i in range(5)]])
        S = torch.nn.functional.one_hot(labels, 2).double()
        value = float(objective(S, cost, graph.weights, 0.8)[0])
        found = descend(cost, [Laplacian(graph, 0.8)], start=S, max_iterations=500)
        assert float(found.objective[0]) <= value + 1e-6
        best = min(best, value)
    assert float(descend(cost, [Laplacian(graph, 0.8)]).objective[0]) <= best + 1e-6


def two_forms(seed: int) -> tuple[Points, Points, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 9, 5, generator=generator, dtype=torch.float64)
    which = (torch.rand(3, 9, generator=generator) < 0.5).double()
    direction = torch.randn(3, 9, generator=generator, dtype=torch.float64) / 9
    coefficients = torch.rand(3, 4, 9, generator=generator, dtype=torch.float64)
    moved = x + which[..., None] * (direction[:, None] @ x)
    return Features(x).moved(which, direction), Gram(x @ x.mT).moved(which, direction), moved, coefficients


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_both_forms_agree_with_the_definition(seed: int) -> None:
    features, gram, x, coefficients = two_forms(seed)
    prototypes = coefficients @ x
    expected = torch.stack([((x - m[:, None]) ** 2).sum(-1) for m in prototypes.unbind(1)], dim=1)
    angle = torch.nn.functional.cosine_similarity(x[:, None], prototypes[:, :, None], dim=-1)
    for points in (features, gram):
        torch.testing.assert_close(points.squared_norms, (x**2).sum(-1))
        torch.testing.assert_close(points.inner(coefficients), prototypes @ x.mT)
        torch.testing.assert_close(squared_distances(points, coefficients), expected)
        torch.testing.assert_close(cosines(points, coefficients), angle)
        torch.testing.assert_close(points.pairwise(), x @ x.mT)
        torch.testing.assert_close(squared_pairwise(points), ((x[:, :, None] - x[:, None]) ** 2).sum(-1))
        some = torch.tensor([2, 0])
        torch.testing.assert_close(points.select(some).inner(coefficients[some]), points.inner(coefficients)[some])


def random(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_modes_are_fixed_points_alike_by_features_and_products_alone_and_in_a_batch(seed: int) -> None:
    x, weights = 3 * random(seed, 3, 9, 3), (random(seed + 1, 3, 2, 9) - 0.4).relu()
    weights[:, :, 0] = 1  # uneven, or the start may be a stationary point that rounding leaves either way
    widths = random(seed + 2, 3, 1, 1) + 0.3
    means = Features(x).means(weights)
    found = Features(x).mean_shift(means, weights, widths, tolerance=1e-9)
    again = Features(x).mean_shift(found, weights, widths, tolerance=0, max_iterations=1)
    torch.testing.assert_close(again @ x, found @ x, atol=1e-6, rtol=0)
    gram = Gram(x @ x.mT).mean_shift(means, weights, widths, tolerance=1e-9)
    torch.testing.assert_close(gram @ x, found @ x, atol=1e-6, rtol=0)
    alone = Features(x[1:2]).mean_shift(means[1:2], weights[1:2], widths[1:2], tolerance=1e-9)
    torch.testing.assert_close(alone[0], found[1])


def test_by_product_modes_rank_saturated_assignments() -> None:
    logits = torch.tensor([[[60.0, 90.0, 70.0, 0.0], [0.0, 0.0, 0.0, 5.0]]])
    members = torch.tensor([[[True, True, True, False], [False, False, False, True]]])
    assert float(torch.softmax(logits, 1)[0, 0, 0]) == 1.0
    assert best_assigned(logits, members).tolist() == [[1, 3]]
    assert best_assigned(torch.zeros_like(logits), members).tolist() == [[0, 3]]


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def both(seed: int, shift: float = 0.0) -> tuple[Rows, Features, torch.Tensor]:
    """Rows and the same points as features, both counted from the rows' origin, and weights (2, 3, 25) of classes."""
    x = draw(seed, 25, 4) + shift
    rows = Rows.of(x)
    return (
        rows,
        Features((x - (0 if rows.origin is None else rows.origin)).expand(2, -1, -1)),
        draw(seed, 2, 3, 25).abs(),
    )


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), shift=st.sampled_from([0.0, 50.0]))
def test_they_are_the_rules_of_small_tasks(seed: int, shift: float) -> None:
    rows, points, weights = both(seed, shift)
    assert (rows.origin is not None) == (shift > 0)
    variance = torch.full((2, 1, 1), 1.5, dtype=torch.float64)
    pairs: list[tuple[Any, Any]] = [
        (prototypes.Means(rows), prototypes.Means(points)),
        (prototypes.Modes(rows, 1.5), prototypes.Modes(points, variance)),
    ]
    coefficients = weights / weights.sum(dim=2, keepdim=True)
    coordinates = coefficients @ points.values
    for mine, theirs in pairs:
        torch.testing.assert_close(mine.cost(coordinates), theirs.cost(coefficients))
        found = mine.update(coordinates, weights, None)
        torch.testing.assert_close(found, theirs.update(coefficients, weights, None) @ points.values, atol=1e-3, rtol=0)
    indices = torch.tensor([[3, 0, 7], [1, 1, 24]])
    torch.testing.assert_close(rows.at(indices), prototypes.Means(points).at(indices) @ points.values)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), variance=st.floats(0.05, 5))
def test_no_mean_shift_step_lowers_the_density(seed: int, variance: float) -> None:
    rows, _, weights = both(seed)
    modes = rows.at(torch.tensor([[0, 1, 2], [3, 4, 5]]))

    def density(at: torch.Tensor) -> torch.Tensor:
        return (torch.exp(rows.squared_distances(at) / (-2 * variance)) * weights).sum(dim=2)

    for _ in range(5):
        after = rows.mean_shift(modes, weights, variance, max_iterations=1)
        assert bool((density(after) >= density(modes) - 1e-12).all())
        modes = after


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


B, N, K, SUPPORT = 3, 6, 3, 4


def draw_terms(seed: int, kind: str, *, gram: bool = True, masked: bool = False) -> tuple[Term, list[torch.Tensor]]:
    """The term and two states."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(B, SUPPORT + N, 5, generator=generator, dtype=torch.float64)
    labelled = torch.nn.functional.one_hot(torch.tensor([0, 1, 2, 0]), K).T.double().expand(B, -1, -1)
    valid = torch.ones(B, 1, N, dtype=torch.float64)
    valid[0, 0, 4:] = 0
    mask = valid if masked else None
    points = Gram(torch.bmm(x, x.mT)) if gram else Features(x)
    terms: dict[str, Term] = {
        "scatter": Scatter(points, labelled, mask, weight=1.7),
        "scatter with a prior": Scatter(points, labelled, mask, weight=1.7, prior=3.0),
        "proportions": ProportionEntropy(0.7, mask),
        "mixture": MixtureEvidence(labelled.sum(2, keepdim=True), mask, concentration=0.6, prior=1.5, dimensions=3),
    }
    scores = 2 * torch.randn(2, B, N, K, generator=generator, dtype=torch.float64)
    return terms[kind], list(torch.softmax(scores, dim=-1))


kinds = pytest.mark.parametrize("kind", ["scatter", "scatter with a prior", "proportions", "mixture"])


@kinds
@pytest.mark.parametrize("masked", [False, True])
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 100_000))
def test_the_gradient_is_the_slope_and_tangents_lie_above(kind: str, masked: bool, seed: int) -> None:
    term, (first, second) = draw_terms(seed, kind, masked=masked)
    value, gradient = term.value_and_gradient(first)
    other, _ = term.value_and_gradient(second)
    way = second - first
    slope = (gradient * way).sum((1, 2))
    ends = [term.value_and_gradient(first + step * way)[0] for step in (1e-6, -1e-6)]
    torch.testing.assert_close((ends[0] - ends[1]) / 2e-6, slope, rtol=1e-5, atol=1e-6)
    assert bool((other <= value + slope + 1e-9).all())
    if masked:
        assert float(gradient[0, 4:].abs().max()) == 0


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
