"""One step of a session: predictions from the labels so far, their estimated accuracy, and the next batch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.labelling.predictions import UNKNOWN, Labeller, Predicted

NONE, SKIPPED = -2, -3
"""Places of items that belong to no class, or were skipped; `UNKNOWN` is -1."""
AUDITED = 0.1  # share of a batch that is drawn at random, for the estimated accuracy


class Snapshot(NamedTuple):
    """The answers at one time.

    Attributes:
        number: number of answers so far.
        classes: K class names.
        given: (N,) index of each label; `UNKNOWN`, `NONE` or `SKIPPED` for items without one.
        audit: (N,) whether an item is of the audit, so that its label is not used to fit.
        by_hand: (N,) whether an item was answered that no selection has chosen, and that is not of the audit.
        batch: number of items that the next batch is to have; 0 if the present one is not complete.
    """

    number: int
    classes: tuple[str, ...]
    given: NDArray[np.int64]
    audit: NDArray[np.bool_]
    by_hand: NDArray[np.bool_]
    batch: int

    @property
    def open(self) -> NDArray[np.bool_]:
        """(N,) whether an item has no answer."""
        return np.equal(self.given, UNKNOWN)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(N,) whether the class of an item is known, or that it has none."""
        return np.isin(self.given, (UNKNOWN, SKIPPED), invert=True)


class Audited(NamedTuple):
    """The audit at one time.

    Attributes:
        labels: number of labels used to fit.
        right, audited: right predictions in the audit, and its size.
        population: number of items that are not used to fit.
        by_hand: number of items answered by hand that are used to fit, or belong to no class.
        by_hand_right: those of them that are predicted rightly without their own label.
    """

    labels: int
    right: int
    audited: int
    population: int
    by_hand: int = 0
    by_hand_right: int = 0


class Step(NamedTuple):
    """The result of one step.

    Attributes:
        predicted: predictions; None without evidence for two classes.
        batch: the next items to label, in the order in which they are shown; empty without a new batch.
        audit: those of them that are drawn at random.
        taken: items of the audit, or answered by hand, that the selection has chosen: they are used to fit from now on.
        joined: items answered by hand that the order of the audit has reached: they are not used to fit from now on.
        audited: the audit; None without predictions.
    """

    predicted: Predicted | None
    batch: list[int]
    audit: frozenset[int]
    taken: frozenset[int]
    joined: frozenset[int]
    audited: Audited | None


def next_step(labeller: Labeller, snapshot: Snapshot, order: NDArray[np.int64]) -> Step:
    """Label the pile anew, compare the audit with it, and choose the next batch.

    The answers of the audit are not used to fit, so that the predictions can be compared with all of them. The
    selection treats the items of the audit, and those answered by hand, as unlabelled: one that it takes leaves them
    (see `fsl.labelling.audit`).

    Args:
        labeller: labels the pile.
        snapshot: the labels.
        order: (N,) the order in which the audit asks for items.
    """
    fitted = np.where((snapshot.given >= 0) & ~snapshot.audit, snapshot.given, UNKNOWN)
    predicted = labeller.predict(snapshot.classes, fitted, snapshot.number)
    if snapshot.batch and snapshot.by_hand.any():  # the selection must not know what was answered by hand
        labeller.predict(snapshot.classes, np.where(snapshot.by_hand, UNKNOWN, fitted), snapshot.number)
    batch, audit, taken, joined = _next_batch(labeller, predicted, snapshot, order)
    audited = None
    if predicted is not None:
        asked, hand = np.flatnonzero(snapshot.audit & snapshot.answered), np.flatnonzero(snapshot.by_hand)
        audited = Audited(
            int((fitted != UNKNOWN).sum()),
            int((predicted.probabilities[asked].argmax(axis=1) == snapshot.given[asked]).sum()),
            len(asked),
            len(order) - int((snapshot.answered & ~snapshot.audit).sum()),
            len(hand),
            int((predicted.left_out[hand].argmax(axis=1) == snapshot.given[hand]).sum()),
        )
    return Step(predicted, batch, audit, taken, joined, audited)


def _next_batch(
    labeller: Labeller,
    predicted: Predicted | None,
    snapshot: Snapshot,
    order: NDArray[np.int64],
) -> tuple[list[int], frozenset[int], frozenset[int], frozenset[int]]:
    wanted = min(snapshot.batch, int(snapshot.open.sum()))
    if not wanted:
        return [], frozenset(), frozenset(), frozenset()
    number = 0 if predicted is None else max(1, round(AUDITED * wanted)) if wanted > 1 else 0
    candidates = snapshot.open | (snapshot.audit & snapshot.answered) | snapshot.by_hand
    chosen: list[int] = []
    taken: set[int] = set()
    while len(chosen) < wanted - number and candidates.any():
        for row in labeller.choose(candidates, wanted - number - len(chosen), snapshot.number):
            candidates[row] = False
            (chosen.append if snapshot.open[row] else taken.add)(row)
    free = snapshot.open.copy()
    free[chosen] = False
    by_hand = snapshot.by_hand.copy()
    by_hand[list(taken)] = False
    # The next ones in the order are audited, answered by hand or not, so that their number does not depend on it.
    reached = [int(row) for row in order if free[row] or by_hand[row]][:number]
    audit = [row for row in reached if free[row]]
    joined = frozenset(reached) - frozenset(audit)
    batch = [*chosen, *audit]
    places = np.random.default_rng([labeller.seed, snapshot.number]).permutation(len(batch))  # hides the audit
    return [batch[place] for place in places], frozenset(audit), frozenset(taken), joined


def random_step(snapshot: Snapshot, predicted: Predicted | None, seed: int) -> Step:
    """A step with the earlier predictions and a random batch, where `next_step` fails."""
    rows = np.random.default_rng([seed, snapshot.number]).permutation(np.flatnonzero(snapshot.open))
    batch = [int(row) for row in rows[: snapshot.batch]]
    return Step(predicted, batch, frozenset(), frozenset(), frozenset(), None)
