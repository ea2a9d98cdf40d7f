"""The trade-off along weights: the smallest weight that is as fair as any, and the front that nothing beats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fairness.trade_off import pareto_front, path_weights, smallest_best

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


@pytest.mark.parametrize("weights", [[], [-1.0], [np.inf], [np.nan]])
def test_weights_that_are_none(weights):
    with pytest.raises(InputError, match="weights"):
        path_weights(weights)
