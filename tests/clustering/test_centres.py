"""Prototypes by coordinates are those that `clustering.optimiser.prototypes` keeps as weights over the points; trials
of one data set do not see each other."""

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.streams import stream
from clustering.optimiser import prototypes
from clustering.optimiser.points import Features
from clustering.optimiser.rows import Rows
from clustering.seeding import plus_plus


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
