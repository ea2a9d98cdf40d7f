"""The fair assignment: the optimum of the whole linear programme, its bounds and prices, and its rounding."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from fairness.assignment import Assignment, bounds_about, fair_assignment
from fairness.groups import Groups, groups_of
from fairness.optimiser.flow_rounding import rounded
from tests.oracles.fair_assignment_lp import fair_lp


def problem(seed: int, N: int, K: int, attributes: int, scale: float = 1.0) -> tuple[NDArray[np.float64], Groups]:
    """Costs with ties, which go with the groups."""
    rng = np.random.default_rng(seed)
    sensitive = rng.integers(0, 3, size=(N, attributes))
    x = rng.normal(size=(N, 2)) + sensitive[:, :1]
    x[N // 2 :: 3] = x[0]
    centres = rng.normal(size=(K, 2)) * 2
    return scale * ((x[:, None] - centres) ** 2).sum(axis=2), groups_of(sensitive, N)


def indicators(groups: Groups) -> NDArray[np.bool_]:
    return groups.membership[groups.cells] > 0


def check(found: Assignment, cost: NDArray[Any], groups: Groups, delta: float) -> None:
    """Everything that an optimum is, by the whole programme."""
    lower, upper = bounds_about(groups.target, delta)
    unit = cost.max()  # of which the solver has absolute tolerances
    oracle = fair_lp(cost / unit, indicators(groups), lower, upper)
    assert oracle is not None
    assert found.value / unit == pytest.approx(oracle[0], rel=1e-6, abs=1e-6)
    assert found.bound / unit == pytest.approx(oracle[0], rel=1e-5, abs=1e-5)
    assert found.bound / unit <= oracle[0] + 1e-6
    shares = found.shares.toarray()
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-7)
    totals, sizes = indicators(groups).T.astype(float) @ shares, shares.sum(axis=0)
    assert (totals >= lower[:, None] * sizes - 1e-5).all()
    assert (totals <= upper[:, None] * sizes + 1e-5).all()
    priced = cost + found.prices[groups.cells]
    chosen = shares > 1e-6
    assert (priced - priced.min(axis=1, keepdims=True))[chosen].max() <= 1e-4 * cost.max()


@settings(max_examples=30)
@given(
    st.integers(0, 10_000),
    st.integers(1, 24),
    st.integers(1, 4),
    st.integers(1, 2),
    st.sampled_from([0.0, 0.2, 0.9]),
    st.sampled_from([1e-8, 1.0, 1e8]),
)
def test_the_optimum_of_the_whole_programme(seed, N, K, attributes, delta, scale):
    cost, groups = problem(seed, N, K, attributes, scale)
    found = fair_assignment(cost, groups, *bounds_about(groups.target, delta), generator=np.random.default_rng(seed))
    check(found, cost, groups, delta)


@pytest.mark.parametrize(("attributes", "delta"), [(1, 0.0), (1, 0.2), (2, 0.1)])
def test_samples_and_generated_columns_change_nothing(attributes, delta):
    cost, groups = problem(0, 620, 5, attributes)
    found = fair_assignment(cost, groups, *bounds_about(groups.target, delta), generator=np.random.default_rng(0))
    check(found, cost, groups, delta)
    other = fair_assignment(cost, groups, *bounds_about(groups.target, delta), generator=np.random.default_rng(1))
    assert other.value == pytest.approx(found.value, rel=1e-9)


def test_bounds_that_no_assignment_can_keep_are_refused():
    groups = groups_of(["f"] * 3 + ["m"] * 7, 10)
    with pytest.raises(InputError, match=r"'f' .*0\.3 .*0\.4\.\.0\.6"):
        fair_assignment(np.ones((10, 2)), groups, np.full(2, 0.4), np.full(2, 0.6), generator=np.random.default_rng(0))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 5), st.integers(1, 2), st.sampled_from([0.0, 0.3]))
def test_rounding_changes_no_count_by_one_and_costs_nothing(seed, N, K, attributes, delta):
    cost, groups = problem(seed, N, K, attributes)
    found = fair_assignment(cost, groups, *bounds_about(groups.target, delta), generator=np.random.default_rng(seed))
    labels = rounded(found.shares, cost, groups.cells)
    assert cost[np.arange(N), labels].sum() <= found.value + 1e-6 * cost.max()
    shares = found.shares.toarray()
    assert (shares[np.arange(N), labels] > 0).all()
    kept = np.zeros((N, K))
    kept[np.arange(N), labels] = 1
    cells = np.eye(len(groups.membership))[groups.cells]
    for part in (cells, np.ones((N, 1))):
        assert np.abs(part.T @ (kept - shares)).max() < 1


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 30), st.sampled_from([0.0, 0.1, 0.37, 1.0]))
def test_a_capacity_is_kept_at_the_least_cost(seed, N, room):
    cost, groups = problem(seed, N, 3, 1)
    capacity = np.array([np.inf, np.inf, room * N])
    found = fair_assignment(
        cost, groups, *bounds_about(groups.target, 0.0), generator=np.random.default_rng(0), capacity=capacity
    )
    assert found.shares.toarray()[:, 2].sum() <= room * N + 1e-5
    assert found.bound == pytest.approx(found.value, rel=1e-5, abs=1e-5 * cost.max())


def test_capacities_that_do_not_hold_all_points_are_refused():
    cost, groups = problem(1, 9, 2, 1)
    exact = bounds_about(groups.target, 0.0)
    with pytest.raises(InputError, match=r"sum to 8, .*9 points"):
        fair_assignment(cost, groups, *exact, generator=np.random.default_rng(0), capacity=np.full(2, 4.0))
