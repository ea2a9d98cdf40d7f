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
    given, ids = np.full(size, OPEN), [*map(str, range(size))]
    audit, selected = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    for number in range(batches + 1):
        by_hand = (given >= 0) & ~audit & ~selected & counted
        wanted = batch if number < batches else 0
        snapshot = Snapshot(number, ids, LETTERS, given.copy(), audit.copy(), by_hand, wanted)
        predicted, found = labeller.step(snapshot)
        items, drawn, taken, joined = (
            list(map(int, part)) for part in (found.items, found.drawn, found.taken, found.joined)
        )
        audit[taken] = False
        selected[taken] = True
        audit[joined + drawn] = True
        selected[[row for row in items if row not in drawn]] = True
        right = None if predicted is None else predicted.probabilities.argmax(axis=1) == truth
        if wanted:
            given[items] = truth[items]
            if number >= 3:
                wrong = random.permutation(np.flatnonzero((given == OPEN) & ~right))[:corrected]
                given[wrong] = truth[wrong]
    rest = (given == OPEN) | audit
    assert rest.sum() == found.accuracy.population
    return float(right[rest].mean()), found.accuracy


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
