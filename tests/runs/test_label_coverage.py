"""How often the interval of the estimated accuracy covers the truth."""

import numpy as np
import pytest

from fsl.extra.smoothed_ridge import SmoothedRidge
from runs.labelling.labeller import OPEN, Labeller, Snapshot

LETTERS = ("a", "b", "c", "d", "e")


def session_corrections(seed, *, size=400, batch=40, batches=7, corrected=12, counted=True):
    """Truth and estimate at the end of a session of the default strategy, after corrections of wrong predictions."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, len(LETTERS), size)
    centres = random.normal(size=(len(LETTERS), 8))
    features = centres[truth] + random.uniform(0.5, 1.2) * random.normal(size=(size, 8))
    labeller = Labeller(features.astype(np.float32), SmoothedRidge(), seed=seed)
    given = np.full(size, OPEN)
    audit, selected = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    for number in range(batches + 1):
        by_hand = (given >= 0) & ~audit & ~selected & counted
        wanted = batch if number < batches else 0
        snapshot = Snapshot(number, LETTERS, given.copy(), audit.copy(), by_hand, wanted)
        predicted, known, shown = labeller.step(snapshot)
        audit[shown.taken] = False
        selected[shown.taken] = True
        audit[shown.joined] = True
        audit[shown.drawn] = True
        selected[[row for row in shown.items if row not in shown.drawn]] = True
        right = None if predicted is None else predicted.probabilities.argmax(axis=1) == truth
        if wanted:
            given[shown.items] = truth[shown.items]
            if number >= 3:
                wrong = random.permutation(np.flatnonzero((given == OPEN) & ~right))[:corrected]
                given[wrong] = truth[wrong]
    rest = (given == OPEN) | audit
    assert rest.sum() == known.population
    return float(right[rest].mean()), known


def covered(number, **options):
    ended = [session_corrections(seed, **options) for seed in range(number)]
    return float(np.mean([found.low - 1e-9 <= truth <= found.high + 1e-9 for truth, found in ended]))


def test_it_covers_in_sessions_with_corrections():
    assert covered(12) >= 0.75


@pytest.mark.slow
def test_it_covers_in_most_sessions_only_if_corrections_are_counted():
    """With few wrong predictions left, and an audit of fewer than 20, it covers more often than 95 %."""
    assert covered(200) >= 0.93
    assert covered(60, counted=False) < 0.9
