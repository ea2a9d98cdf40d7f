"""The one optimiser: descent, stationarity, guard, clamp, independence of the batch."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clustering.graphs.dense_graph import DenseGraph
from clustering.optimiser.descent import descend
from clustering.optimiser.guard import Status
from clustering.optimiser.points import Features
from clustering.optimiser.terms import Laplacian
from fairness.optimiser.terms import GroupProportions

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


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), exponent=st.floats(-8, 6), groups=st.integers(2, 5))
def test_temperature_zero_descends_at_any_fairness_weight(seed: int, exponent: float, groups: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    group = torch.randint(0, groups, (40,), generator=generator)
    group[:groups] = torch.arange(groups)
    one_hot = torch.nn.functional.one_hot(group, groups).double()
    term = GroupProportions(one_hot, one_hot.mean(0), weight=10.0**exponent)
    found = descend(random_cost(seed, 1, 40, 3), [term], temperature=0.0, trace=True, max_iterations=150)
    assert found.trace is not None
    scale = found.trace.nan_to_num().abs().max()
    assert not rises(found.trace, 1e-12 * scale + 64 * 2.3e-16 * 10.0**exponent * 100)
