"""Estimated accuracy of a pile: against slow tests of every population, and coverage in simulated sessions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from clustering.foundation.errors import InputError
from fsl.labelling.audit import EstimatedAccuracy, audit_order, estimated_accuracy


def of_counts(right: int, size: int, population: int, confidence: float = 0.95) -> EstimatedAccuracy:
    return estimated_accuracy(np.arange(size) < right, population, confidence=confidence)


@st.composite
def audits(draw: st.DrawFn) -> tuple[int, int, int]:
    population = draw(st.integers(1, 120))
    size = draw(st.integers(1, population))
    return draw(st.integers(0, size)), size, population


@given(audit=audits(), confidence=st.sampled_from([0.5, 0.9, 0.95]))
def test_the_interval_holds_all_populations_that_no_test_rejects(
    audit: tuple[int, int, int], confidence: float
) -> None:
    right, size, population = audit
    kept = []
    for total in range(right, population - (size - right) + 1):
        X = hypergeom(population, total, size)
        as_observed = X.pmf(right) / 2
        fewer, more = X.cdf(right) - as_observed, X.sf(right) + as_observed
        if min(fewer, more) > (1 - confidence) / 2 + 1e-9:
            kept.append(total)
    found = of_counts(right, size, population, confidence)
    assert (round(found.low * population), round(found.high * population)) == (min(kept), max(kept))
    assert kept == list(range(min(kept), max(kept) + 1))


@pytest.mark.parametrize(
    ("right", "population", "confidence", "named"),
    [([], 5, 0.95, "audit"), ([2.0], 5, 0.95, "right"), ([1, 0], 1, 0.95, "population=1"), ([1], 3, 1.0, "confidence")],
)
def test_bad_audits_are_named(right: list[float], population: int, confidence: float, named: str) -> None:
    with pytest.raises(InputError, match=named):
        estimated_accuracy(right, population, confidence=confidence)


@given(audit=audits(), data=st.data())
def test_points_labelled_by_hand_are_counted_as_they_are(audit: tuple[int, int, int], data: st.DataObject) -> None:
    right, size, population = audit
    by_hand = data.draw(st.lists(st.booleans(), max_size=20))
    found = estimated_accuracy(np.arange(size) < right, population, by_hand=by_hand)
    sampled = of_counts(right, size, population + len(by_hand))
    for limit, of_sample in ((found.low, sampled.low), (found.high, sampled.high)):
        total = round(of_sample * (population + len(by_hand))) - sum(by_hand)
        assert round(limit * population) == min(max(total, right), population - (size - right))
    assert found.low <= found.accuracy + 1e-12
    assert found.accuracy <= found.high + 1e-12


def covers(seed: int, corrected: float) -> bool:
    """Whether the interval at the end of a session covers the truth; the predictions improve from round to round, and
    the selection asks for the hardest points. After each round, a person finds a share `corrected` of the wrong
    predictions, and corrects them by hand."""
    random = np.random.default_rng(seed)
    size = int(200 * 500 ** random.random())
    last = 0.5 + 0.495 * random.random()
    asked = min(int(20 * 20 ** random.random()), size // 4)
    rounds, batch = 4, size // 20 if size < 2000 else 50
    hardness, order = random.random(size), audit_order(size, seed)
    fitted, audit, hand, position = np.zeros(size, bool), np.zeros(size, bool), np.zeros(size, bool), 0
    for turn in range(rounds):
        mixed = hardness + 0.5 * random.random(size)
        right = mixed < np.quantile(mixed, last * (0.5 + 0.5 * (turn + 1) / rounds))
        target = (turn + 1) * asked // rounds
        while (audit & ~fitted).sum() < target:
            audit[order[position]] = not fitted[order[position]]
            position += 1
        choice = np.where(fitted, -1, hardness + 0.1 * random.random(size))
        fitted[np.argpartition(-choice, batch)[:batch]] = True
        hand &= ~audit & ~fitted
        hand |= ~right & ~fitted & ~audit & (random.random(size) < corrected)
    audit &= ~fitted
    rest = ~fitted & ~hand
    truth = float(right[rest].mean())
    found = estimated_accuracy(right[audit], int(rest.sum()), by_hand=right[hand])
    return found.low - 1e-9 <= truth <= found.high + 1e-9


@pytest.mark.parametrize("corrected", [0, 0.4])
def test_it_covers_in_simulated_sessions(corrected: float) -> None:
    assert 0.9 <= np.mean([covers(seed, corrected) for seed in range(100)])
