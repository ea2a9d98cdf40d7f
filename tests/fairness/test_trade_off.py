"""The trade-off along weights: the smallest weight that is as fair as any, and the front that nothing beats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fairness import FairKMeans, FairNcut
from fairness.trade_off import GRID, pareto_front, path_weights, smallest_best

pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12)


@given(pairs)
def test_nothing_beats_the_front_and_the_front_beats_all_else(points):
    objective, error = np.array(points, dtype=float).T
    front = pareto_front(objective, error)

    def beaten(i):
        no_worse = (objective <= objective[i]) & (error <= error[i])
        return bool((no_worse & ((objective < objective[i]) | (error < error[i]))).any())

    kept = {(objective[i], error[i]) for i in front}
    assert len(kept) == len(front)
    assert kept == {(objective[i], error[i]) for i in range(len(points)) if not beaten(i)}
    assert (np.diff(objective[front]) > 0).all()
    assert (np.diff(error[front]) < 0).all()


def test_what_is_not_known_is_on_no_front():
    assert pareto_front([np.nan, 1.0, 2.0], [0.0, 1.0, np.inf]).tolist() == [1]
    assert pareto_front([np.nan], [1.0]).tolist() == []


@given(st.lists(st.floats(0, 50), min_size=1, max_size=14))
def test_the_smallest_weight_that_is_as_fair_as_any(errors):
    chosen = smallest_best(np.arange(len(errors)), errors)
    least = min(errors)
    bound = least + max(0.01 * least, 1e-4)
    assert errors[chosen] <= bound
    assert all(error > bound for error in errors[:chosen])


def test_a_method_without_a_weight_has_one_point():
    assert smallest_best([np.nan], [0.3]) == 0
    assert smallest_best([0.0, 1.0], [np.nan, np.nan]) is None


@pytest.mark.parametrize("weights", [[], [-1.0], [np.inf], [np.nan]])
def test_weights_that_are_none(weights):
    with pytest.raises(InputError, match="weights"):
        path_weights(weights)


def test_default_weights_fit_the_units_of_the_points():
    generator = np.random.default_rng(0)
    X, groups = generator.normal(size=(60, 2)) + 5, generator.integers(0, 2, 60)
    plain, far = (
        FairKMeans(2, n_init=1, rungs=0, max_iter=2, max_sweeps=4, random_state=0).path(
            scale * X, sensitive_features=groups
        )
        for scale in (1, 10)
    )
    weights = np.array([model.fairness_weight for model in plain])
    assert weights == pytest.approx(np.array(GRID) * ((X - X.mean(axis=0)) ** 2).sum() / 2)
    assert [model.fairness_weight for model in far] == pytest.approx(100 * weights)
    for one, other in zip(plain, far, strict=True):
        np.testing.assert_array_equal(one.labels_, other.labels_)
    cut = FairNcut(2, n_init=1, rungs=0, max_iter=2, random_state=0).path(X, sensitive_features=groups)
    assert [model.fairness_weight for model in cut] == list(GRID)


@pytest.mark.parametrize(
    ("method", "stages"),
    [(FairKMeans(2, rungs=0, max_iter=3, n_init=2), 6), (FairNcut(2, rungs=0, max_iter=3, n_init=2), 3)],
)
def test_a_path_tells_how_far_it_is(method, stages):
    generator, told = np.random.default_rng(0), []
    X, groups = generator.normal(size=(40, 2)), generator.integers(0, 2, 40)
    method.path(X, [0, 1, 2], sensitive_features=groups, done=lambda finished, of: told.append((finished, of)))
    assert told == [(i, stages) for i in range(1, stages + 1)]
