"""Prototypes by coordinates are those that `clustering.optimiser.prototypes` keeps as weights over the points; trials
of one data set do not see each other."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.streams import stream
from clustering.graphs.neighbourhood import neighbour_graph
from clustering.graphs.sparse_graph import SharedGraph, SparseGraph
from clustering.optimiser import centres, prototypes
from clustering.optimiser.centres import Rows
from clustering.optimiser.points import Features
from clustering.seeding import plus_plus
from clustering.trials import Course, cut, run_trials


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
        (centres.Means(rows), prototypes.Means(points)),
        (centres.Modes(rows, 1.5), prototypes.Modes(points, variance)),
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
        after = centres.mean_shift(rows, modes, weights, variance, max_iterations=1)
        assert bool((density(after) >= density(modes) - 1e-12).all())
        modes = after


def test_a_mode_that_sees_no_point_begins_within_its_class() -> None:
    rows, _, weights = both(0)
    far = torch.full((2, 3, 4), 1e4, dtype=torch.float64)
    for variance in (1.0, 1e-6):  # seen from the mean; from no mean, but from a point
        found = centres.mean_shift(rows, far, weights, variance)
        assert bool((rows.squared_distances(found).amin(dim=2) < 5).all())


def test_medoids_against_all_pairs() -> None:
    rows, _, weights = both(1)
    labels = weights.argmax(dim=1)
    found = centres.Medoids(rows).update(rows.at(labels[:, :3]), weights, None)
    for b in range(2):
        for k in range(3):
            own = rows.values[labels[b] == k]
            sums = [sum(float((x - y).norm()) for x in own) for y in own]
            torch.testing.assert_close(found[b, k], own[sums.index(min(sums))])


def test_a_trial_does_not_depend_on_the_others() -> None:
    rows, points, _ = both(2)
    graph = neighbour_graph(points.select(slice(0, 1)), 3)
    assert isinstance(graph, SparseGraph)
    seeds = rows.at(plus_plus(rows, 3, [stream(0, "test", trial) for trial in range(4)]))
    slopes = torch.tensor([0.2, 0.2, 1.0, 4.0], dtype=torch.float64)
    for rule in (centres.Means(rows), centres.Modes(rows, 1.5), centres.ByProductModes(rows, 1.5)):
        together = run_trials(rule, graph, seeds, slopes, path=(0.5,), course=Course(empty="reseed"))
        for trial in (0, 3):
            some = slice(trial, trial + 1)
            alone = run_trials(rule, graph, seeds[some], slopes[some], path=(0.5,), course=Course(empty="reseed"))
            torch.testing.assert_close(alone.assignments[0], together.assignments[trial])
            assert int(alone.iterations) == int(together.iterations[trial])


def test_a_shared_graph_is_the_graph_of_every_trial() -> None:
    _, points, _ = both(3)
    once, twice = neighbour_graph(points.select(slice(0, 1)), 3), neighbour_graph(points, 3)
    assert isinstance(once, SparseGraph)
    S = torch.softmax(draw(5, 2, 25, 3), dim=2)
    torch.testing.assert_close(SharedGraph(once) @ S, twice @ S)
    labels = S.argmax(dim=2)
    W = once @ torch.eye(25, dtype=torch.float64)[None]
    expected = (W[0] * (labels[:, :, None] != labels[:, None])).sum(dim=(1, 2))
    torch.testing.assert_close(cut(labels, once), expected)


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


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 1000))
def test_seeds_do_not_hang_on_how_distances_are_rounded(seed: int) -> None:
    x = draw(seed, 40, 3).float()
    x[8:] = x[:8].repeat(4, 1)  # candidates are often equal points
    rows, plain, noise = Rows.of(x), Rows.squared_distances, torch.Generator().manual_seed(seed)

    def otherwise(self: Rows, some: torch.Tensor) -> torch.Tensor:
        found = plain(self, some)
        error = torch.randn(found.shape, generator=noise, dtype=found.dtype) * torch.finfo(found.dtype).eps
        return (found + error * self.squared_norms).clamp_min(0)

    expected = plus_plus(rows, 6, [stream(seed, "seeds", trial) for trial in range(3)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "squared_distances", otherwise)
        assert plus_plus(rows, 6, [stream(seed, "seeds", trial) for trial in range(3)]).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_prototype_that_is_a_point_is_found_again(dtype: torch.dtype) -> None:
    x = draw(0, 30, 3).to(dtype) + 100
    x[20] = x[4]
    rows = Rows.of(x)
    wanted = torch.tensor([20, 3])
    assert rows.places(rows.at(wanted)).tolist() == [4, 3]  # the first of equal ones
    assert rows.places(rows.at(wanted) + 1).tolist() == [-1, -1]
