"""Paired differences: against SciPy's bootstrap, and what must hold whatever the numbers."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from clustering.foundation.errors import InputError
from fsl.evaluation import paired
from fsl.evaluation.paired import Paired

ACCURACIES = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 30), st.just(3)), elements=st.integers(0, 15).map(lambda right: right / 15)
)


def correlated(units: int = 400, seed: int = 0) -> paired.Matrix:
    """Three strategies on tasks that are hard or easy for all of them; the second is better by 0.02."""
    random = np.random.default_rng(seed)
    hardness = random.normal(0.7, 0.1, (units, 1))
    return np.asarray(hardness + random.normal([0, 0.02, 0], [0.03, 0.03, 0.06], (units, 3)))


def test_the_interval_is_that_of_scipys_paired_bootstrap() -> None:
    values = correlated()
    found = Paired([values]).difference(1, 0)
    expected = scipy.stats.bootstrap(
        (values[:, 1], values[:, 0]),
        lambda a, b, axis: (a - b).mean(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=9_999,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert found.low == pytest.approx(expected.low, abs=1e-4)  # both are random
    assert found.high == pytest.approx(expected.high, abs=1e-4)
    assert found.excludes_zero
    apart = 1.96 * math.hypot(values[:, 1].std(), values[:, 0].std()) / math.sqrt(len(values))
    assert found.high - found.low < apart, "what tasks have in common is no part of it"


@settings(deadline=None, max_examples=25)
@given(values=ACCURACIES)
def test_what_holds_of_any_accuracies(values: paired.Matrix) -> None:
    compared = Paired([values], resamples=199)
    for first, second in ((0, 1), (1, 2), (2, 2)):
        there, back = compared.difference(first, second), compared.difference(second, first)
        units = values[:, first] - values[:, second]
        assert there.mean == pytest.approx(units.mean())
        assert there.mean == pytest.approx(-back.mean)
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
        assert (there.better, there.equal, there.worse) == pytest.approx((back.worse, back.equal, back.better))
        assert there.better == pytest.approx((values[:, first] > values[:, second]).mean())
        assert there.better + there.equal + there.worse == pytest.approx(1)
        assert units.min() - 1e-12 <= there.low <= there.high <= units.max() + 1e-12
    same = compared.difference(2, 2)
    assert (same.mean, same.low, same.high, same.equal, same.excludes_zero) == (0, 0, 0, 1, False)
    total = compared.difference(0, 1).mean + compared.difference(1, 2).mean
    assert compared.difference(0, 2).mean == pytest.approx(total)


def test_over_seeds_tasks_are_resampled_within_each() -> None:
    one, two = correlated(300, 1), correlated(300, 2)
    alone = [Paired([values]).difference(1, 0) for values in (one, two)]
    both = Paired([one, two]).difference(1, 0)
    expected = math.hypot(*((d.high - d.low) / 2 for d in alone)) / 2
    assert (both.high - both.low) / 2 == pytest.approx(expected, rel=0.05)


def test_wrong_shapes_are_refused() -> None:
    for wrong in ([], [np.zeros((0, 2))], [np.zeros(4)], [np.zeros((4, 2)), np.zeros((4, 3))]):
        with pytest.raises(InputError, match="units, strategies"):
            Paired(wrong)
