"""fairness_weight="auto": the least weight that reaches a goal, what is refused, what is warned of."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from clustering.errors import InputError
from fairness import FairKMeans, FairKMedian, FairNcut
from fairness.groups import groups_of
from fairness.weight_search import Ended, Goal
from tests.fairness.thesis_sets import draw, unequal

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BRIEF: dict[str, Any] = {"n_init": 1, "rungs": 1, "max_iter": 5, "max_sweeps": 10, "random_state": 0}
GROUPS = np.repeat([0, 1], 50)


def labelled(strangers):
    """Clusters of 50 points, so many of the other group in each."""
    labels = GROUPS.copy()
    labels[:strangers], labels[50 : 50 + strangers] = 1, 0
    return labels


@settings(max_examples=30)
@given(
    threshold=st.floats(-4, 6).map(lambda exponent: 10.0**exponent),
    first=st.floats(1e-3, 10),
    wanted=st.integers(1, 25),
)
def test_the_least_weight_is_found_up_to_a_tenth(threshold, first, wanted):
    asked = []

    def follow(weights):
        for weight in weights:
            asked.append(weight)
            yield Ended(weight, labelled(wanted if weight >= threshold else 0), weight, weight)

    goal = Goal(None, wanted / (50 - wanted))
    found = goal.search(follow, groups_of(GROUPS, 100), 2, first=first, last=first * 1e4)
    assert len(asked) <= 15
    assert [trial.weight for trial in found.path] == sorted(asked)
    assert asked[0] == 0
    if threshold <= first * 1e4:
        assert found.trial.reached
        assert found.end == found.trial.weight >= threshold
        assert found.end <= max(1.1 * threshold, first)
    else:
        assert not found.trial.reached
        assert max(asked) == first * 1e4


def test_what_is_nearest_where_nothing_reaches_it():
    strangers = {0.0: 1, 1.0: 7, 4.0: 5}

    def follow(weights):
        for weight in weights:
            yield Ended(weight, labelled(strangers[weight]), weight, weight)

    found = Goal(None, 0.5).search(follow, groups_of(GROUPS, 100), 2, first=1.0, last=4.0)
    assert (found.end, found.trial.reached) == (1.0, False)
    strangers[1.0] = 3
    other = Goal(None, 0.5).search(follow, groups_of(GROUPS, 100), 2, first=1.0, last=4.0)
    assert other.end == 4.0
    assert Goal(None, 0.5).nearest([other, found]).trial == found.trial


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
def test_labels_reach_the_goal_and_a_path_there_does_so_at_about_that_weight(kind, goal):
    X, groups = unequal()
    model = kind(2, fairness_weight="auto", random_state=0, n_init=1, rungs=1, max_iter=15, **goal)
    model.fit(X, sensitive_features=groups)
    assert model.fairness_error_ <= goal.get("max_error", np.inf)
    assert model.balance_min_ >= goal.get("min_balance", 0)
    [chosen] = [trial for trial in model.weight_path_ if trial.weight == model.fairness_weight_]
    assert chosen[1:] == (
        pytest.approx(model.objective_),
        pytest.approx(model.fairness_error_),
        model.balance_min_,
        True,
    )
    assert all(not trial.reached for trial in model.weight_path_ if trial.weight < model.fairness_weight_)
    assert model.get_params()["fairness_weight"] == "auto"


def test_a_goal_that_the_unfair_clustering_reaches_is_free():
    X, _ = unequal()
    every_other = np.arange(len(X)) % 2
    model = FairKMeans(2, fairness_weight="auto", max_error=0.2, random_state=0).fit(X, sensitive_features=every_other)
    assert (model.fairness_weight_, {trial.weight for trial in model.weight_path_}) == (0, {0})
    alone = FairKMeans(2, fairness_weight="auto", max_error=0, random_state=0).fit(X)
    assert (alone.fairness_weight_, alone.fairness_error_) == (0, 0)


@quiet
@pytest.mark.slow
def test_of_the_starts_that_reach_it_the_least_weight_is_taken():
    X, groups = draw(0, 60)
    options = {"fairness_weight": "auto", "max_error": 0.1, **BRIEF}
    del options["n_init"]
    one, some = (FairKMeans(3, n_init=starts, **options).fit(X, sensitive_features=groups) for starts in (1, 3))
    assert some.fairness_error_ <= 0.1
    reached = [trial for trial in some.weight_path_ if trial.reached]
    assert (some.fairness_weight_, some.objective_) == pytest.approx(min(reached)[:2])
    assert len({trial.weight for trial in reached}) > 1  # else every start took the same
    assert set(one.weight_path_) < set(some.weight_path_)


def test_of_starts_at_one_weight_the_cheapest_is_taken():
    def found(weight, objective):
        follow = lambda weights: (Ended(one, labelled(25 * (one >= weight)), objective, objective) for one in weights)  # noqa: E731
        return Goal(None, 0.9).search(follow, groups_of(GROUPS, 100), 2, first=1.0, last=4.0)

    dear, cheap, late = found(1.0, 3.0), found(1.0, 2.0), found(4.0, 1.0)
    best = Goal(None, 0.9).nearest([dear, late, cheap])
    assert best.end == 2.0
    assert len(best.path) == len(dear.path) + len(cheap.path) + len(late.path)


@pytest.mark.filterwarnings("ignore:the labels' fairness error")
def test_a_goal_that_no_weight_reaches_is_told():
    X, groups = np.repeat([[0.0], [1.0]], 10, axis=0), np.repeat([0, 1], 10)
    options = {"fairness_weight": "auto", "min_balance": 0.9, **BRIEF}
    with pytest.warns(ConvergenceWarning, match=r"min_balance=0\.9: .*rounding='flow'$"):
        FairKMeans(2, **options).fit(X, sensitive_features=groups)
    unfair = (Ended(weight, labelled(0), weight, weight) for weight in (0.0,))
    missed = Goal(None, 0.9).search(lambda _: unfair, groups_of(GROUPS, 100), 2, first=1.0, last=4.0)
    with pytest.warns(ConvergenceWarning, match="n_init$"):  # not what is set already
        Goal(None, 0.9).warn_if_missed(missed, "flow")


@pytest.mark.parametrize("kind", [FairKMeans, FairKMedian, FairNcut])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fairness_weight": "auto"}, "max_error, min_balance"),
        ({"fairness_weight": "automatic"}, "fairness_weight"),
        ({"max_error": 0.1}, "fairness_weight is None"),
        ({"fairness_weight": 3.0, "min_balance": 0.1}, "fairness_weight is 3.0"),
        ({"fairness_weight": "auto", "max_error": -0.1}, "max_error"),
        ({"fairness_weight": "auto", "min_balance": 1.5}, "min_balance"),
        ({"fairness_weight": "auto", "min_balance": 0.7}, r"balance .*0\.5"),
        (
            {"fairness_weight": "auto", "max_error": 0.01, "target": [0.5, 0.5]},
            r"0\.058",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:the target of")
def test_goals_that_cannot_be(kind, options, words):
    X, groups = np.arange(12.0)[:, None], [0, 0, 1] * 4
    with pytest.raises(InputError, match=words):
        kind(2, **options).fit(X, sensitive_features=groups)


@quiet
def test_a_path_needs_no_goal():
    X, groups = draw(1, 40)
    model = FairKMeans(3, fairness_weight="auto", max_error=0.1, **BRIEF)
    [at] = model.path(X, [2], sensitive_features=groups)
    assert (at.fairness_weight, at.max_error) == (2, None)
    at.fit(X, sensitive_features=groups)


@quiet
def test_of_many_points_all_reach_the_goal_not_a_sample_alone(monkeypatch):
    monkeypatch.setattr("fairness.starts._SAMPLE", 60)
    monkeypatch.setattr("fairness.starts._MEMBERS", 1)
    X, groups = unequal()
    model = FairKMeans(2, fairness_weight="auto", max_error=0.1, **{**BRIEF, "rungs": 0})
    model.fit(X, sensitive_features=groups)
    assert model.fairness_error_ <= 0.1
    assert model.fairness_weight_ > 0
