"""The estimated accuracy covers the truth in sessions in which people correct predictions of their own choice."""

import numpy as np
import pytest

from fsl.extra.smoothed_ridge import SmoothedRidge
from fsl.labelling.audit import audit_order, estimated_accuracy
from runs.labelling.predictions import UNKNOWN, Labeller
from runs.labelling.steps import Snapshot, next_step

CLASSES = ("a", "b", "c", "d", "e")


def session(seed, *, size=400, batch=40, batches=7, corrected=12, counted=True):
    """Truth and estimate at the end of a session of the default strategy, after corrections of wrong predictions."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, len(CLASSES), size)
    centres = random.normal(size=(len(CLASSES), 8))
    features = centres[truth] + random.uniform(0.5, 1.2) * random.normal(size=(size, 8))
    labeller = Labeller(features.astype(np.float32), SmoothedRidge(), seed=seed)
    given, order = np.full(size, UNKNOWN), audit_order(size, seed)
    audit, selected = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    for number in range(batches + 1):
        by_hand = (given >= 0) & ~audit & ~selected & counted
        wanted = batch if number < batches else 0
        step = next_step(labeller, Snapshot(number, CLASSES, given.copy(), audit.copy(), by_hand, wanted), order)
        audit[list(step.taken)] = False
        selected[list(step.taken)] = True
        audit[list(step.joined)] = True
        audit[list(step.audit)] = True
        selected[[row for row in step.batch if row not in step.audit]] = True
        right = None if step.predicted is None else step.predicted.probabilities.argmax(axis=1) == truth
        if wanted:
            given[step.batch] = truth[step.batch]
            if number >= 3:
                wrong = random.permutation(np.flatnonzero((given == UNKNOWN) & ~right))[:corrected]
                given[wrong] = truth[wrong]
    points = step.audited
    found = estimated_accuracy(
        np.arange(points.audited) < points.right,
        points.population,
        by_hand=np.arange(points.by_hand) < points.by_hand_right,
    )
    rest = (given == UNKNOWN) | audit
    assert rest.sum() == points.population
    return float(right[rest].mean()), found


def covered(number, **options):
    ended = [session(seed, **options) for seed in range(number)]
    return float(np.mean([found.low - 1e-9 <= truth <= found.high + 1e-9 for truth, found in ended]))


def test_it_covers_in_sessions_with_corrections():
    assert covered(12) >= 0.75


@pytest.mark.slow
def test_it_covers_in_most_sessions_only_if_corrections_are_counted():
    """With few wrong predictions left, and an audit of fewer than 20, it covers more often than 95 %."""
    assert covered(200) >= 0.93
    assert covered(60, counted=False) < 0.9
