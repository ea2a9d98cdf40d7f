"""The fair assignment and goals as fairness_weight: optima of linear programmes, bounds, the cheapest labels."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from clustering.foundation.errors import InputError
from fairness import FairKMeans, FairKMedian, FairNcut
from fairness.assignment import Assignment, bounds_about, fair_assignment
from fairness.groups import Groups, groups_of
from fairness.optimiser.flow_rounding import rounded
from fairness.optimiser.weight_search import Ended, Goal
from fairness.trade_off import GRID
from tests.fairness.thesis_sets import unequal
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


quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BRIEF: dict[str, Any] = {"n_init": 1, "max_iter": 5, "random_state": 0}
GROUPS = np.repeat([0, 1], 50)


def labelled(strangers):
    """Clusters of 50 points, so many of the other group in each."""
    labels = GROUPS.copy()
    labels[:strangers], labels[50 : 50 + strangers] = 1, 0
    return labels


def fits_of(*starts, asked=None):
    """Fits of some starts: labels with so many strangers, and what they cost, by weight."""

    def at(weights):
        if asked is not None:
            asked.extend(weights)
        for start in starts:
            for weight in weights:
                strangers, objective = start(weight)
                yield Ended(weight, labelled(strangers), objective, weight)

    return at


@quiet
@settings(max_examples=30)
@given(
    threshold=st.floats(-2, 3).map(lambda exponent: 10.0**exponent),
    unit=st.floats(1e-3, 10),
    wanted=st.integers(1, 25),
)
def test_between_two_weights_the_least_is_found_up_to_half_a_percent(threshold, unit, wanted):
    """Where objectives rise with the weight, the cheapest that reaches a goal is that of the least weight."""
    asked = []
    at = fits_of(lambda weight: (wanted if weight >= threshold else 0, 1 + weight), asked=asked)
    weights = [unit * weight for weight in GRID]
    found = Goal(None, wanted / (50 - wanted)).search(at, groups_of(GROUPS, 100), 2, weights)
    assert asked[: len(weights)] == weights
    assert len(asked) <= len(weights) + 11
    assert [trial.weight for trial in found.path] == sorted(asked)
    if threshold <= 10 * weights[-1]:
        assert found.trial.reached
        assert found.end == found.trial.weight >= threshold
        if threshold <= weights[-1]:
            assert found.end <= max(1.005 * threshold, weights[1])
    else:
        assert not found.trial.reached
        assert max(asked) == 10 * weights[-1]


@quiet
@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 20))
def test_nothing_that_was_tried_reaches_it_and_is_cheaper(seed, starts, wanted):
    """Errors and objectives that go up and down, of several starts."""

    def start(place):
        drawn = lambda weight: np.random.default_rng([seed, place, int(1e6 * weight) % 2**31])  # noqa: E731
        return lambda weight: (int(drawn(weight).integers(0, 25)), 1 + float(drawn(weight).random()))

    goal = Goal(None, wanted / (50 - wanted))
    found = goal.search(fits_of(*map(start, range(starts))), groups_of(GROUPS, 100), 2, GRID)
    reached = [trial for trial in found.path if trial.reached]
    assert len(found.path) >= starts * len(GRID)
    assert found.trial.reached == bool(reached)
    if reached:
        assert found.trial.objective == min(trial.objective for trial in reached)
    else:
        assert found.trial.balance_min == max(trial.balance_min for trial in found.path)


@quiet
@pytest.mark.parametrize(
    ("kind", "goal"),
    [
        (FairKMeans, {"max_error": 0.05}),
        (FairKMeans, {"max_error": 0.2, "min_balance": 0.25}),
        (FairKMedian, {"min_balance": 0.2}),
        (FairNcut, {"max_error": 0.1}),
    ],
)
def test_labels_reach_the_goal_and_none_on_the_path_do_so_for_less(kind, goal):
    X, groups = (of[::8] for of in unequal())
    options = {"random_state": 0, "n_init": 2}
    model = kind(2, fairness_weight=goal, **options).fit(X, sensitive_features=groups)
    most, least = goal.get("max_error", np.inf), goal.get("min_balance", 0)
    assert model.fairness_error_ <= most
    assert model.balance_min_ >= least
    found = (model.fairness_weight_, model.objective_, model.fairness_error_, model.balance_min_, True)
    assert any(trial == pytest.approx(found) for trial in model.weight_path_)
    assert model.objective_ <= min(trial.objective for trial in model.weight_path_ if trial.reached) + 1e-9
    for other in kind(2, **options).path(X, sensitive_features=groups):
        if other.fairness_error_ <= most and other.balance_min_ >= least:
            assert model.objective_ <= other.objective_ + 1e-9
    assert model.get_params()["fairness_weight"] == goal


def test_a_goal_that_the_unfair_clustering_reaches_is_free():
    X, _ = unequal()
    every_other = np.arange(len(X)) % 2
    options = {"fairness_weight": {"max_error": 0.2}, **BRIEF}
    model = FairKMeans(2, **options).fit(X, sensitive_features=every_other)
    assert model.objective_ == min(trial.objective for trial in model.weight_path_)
    with pytest.warns(UserWarning, match="no sensitive_features"):
        alone = FairKMeans(2, fairness_weight={"max_error": 0}, random_state=0).fit(X)
    assert (alone.fairness_weight_, alone.fairness_error_) == (0, 0)


def test_a_goal_that_no_weight_reaches_is_told():
    with pytest.warns(ConvergenceWarning, match=r"min_balance=0\.9: .*more n_init$"):
        Goal(None, 0.9).search(fits_of(lambda weight: (0, weight)), groups_of(GROUPS, 100), 2, GRID)


@pytest.mark.parametrize("kind", [FairKMeans, FairKMedian, FairNcut])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fairness_weight": {}}, "max_error, min_balance"),
        ({"fairness_weight": {"balance": 0.1}}, "max_error, min_balance"),
        ({"fairness_weight": "auto"}, "fairness_weight .*a goal"),
        ({"fairness_weight": {"max_error": -0.1}}, "max_error"),
        ({"fairness_weight": {"min_balance": 1.5}}, "min_balance"),
        ({"fairness_weight": {"min_balance": 0.7}}, r"balance .*0\.5"),
        ({"fairness_weight": {"max_error": 0.01}, "target": [0.5, 0.5]}, r"0\.058"),
    ],
)
@pytest.mark.filterwarnings("ignore:the target of")
def test_goals_that_cannot_be(kind, options, words):
    X, groups = np.arange(12.0)[:, None], [0, 0, 1] * 4
    with pytest.raises(InputError, match=words):
        kind(2, **options).fit(X, sensitive_features=groups)
