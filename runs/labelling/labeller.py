"""Predictions for the whole pile from the labels given so far, their estimated accuracy, and what to label next."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsl.episodes import Strategy
from fsl.labelling.audit import audit_order
from fsl.labelling.selection import Selection, next_to_label
from fsl.transductive_classifier import TransductiveClassifier
from runs.labelling.journal import Shown

OPEN, NONE, SKIPPED = -1, -2, -3
"""Places of items without a label: without answer, of no class, or skipped."""
AUDITED = 0.1  # share of a batch that is drawn at random, for the estimated accuracy
TextOf = Callable[[Sequence[str]], "NDArray[np.floating] | str"]
"""Function that returns the features of class names, or a message that says why there are none."""


class Predicted(NamedTuple):
    """Predictions for N items.

    Attributes:
        number: number of answers they are based on.
        classes: K class names.
        probabilities: (N, K) float32; 0 for a class without evidence.
        left_out: (N, K) float32, of labelled items, computed without their label; 0 for the others.
    """

    number: int
    classes: tuple[str, ...]
    probabilities: NDArray[np.float32]
    left_out: NDArray[np.float32]

    def label(self, row: int) -> tuple[str, float]:
        """The most likely class of an item, and its probability."""
        best = int(self.probabilities[row].argmax())
        return self.classes[best], float(self.probabilities[row, best])


class Snapshot(NamedTuple):
    """The answers at one time.

    Attributes:
        number: number of answers so far.
        ids: N items.
        classes: K class names.
        given: (N,) index of each label; `OPEN`, `NONE` or `SKIPPED` for items without one.
        audit: (N,) whether an item is of the audit, so that its label is not used to fit.
        by_hand: (N,) whether an item was answered that no selection has chosen, and that is not of the audit.
        batch: number of items that the next batch is to have; 0 if the present one is not complete.
    """

    number: int
    ids: Sequence[str]
    classes: tuple[str, ...]
    given: NDArray[np.int64]
    audit: NDArray[np.bool_]
    by_hand: NDArray[np.bool_]
    batch: int

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(N,) whether the class of an item is known, or that it has none."""
        return np.isin(self.given, (OPEN, SKIPPED), invert=True)

    def named(self, rows: Sequence[int]) -> list[str]:
        """The ids of rows."""
        return [self.ids[row] for row in rows]


class Labeller:
    """Labels a pile anew whenever labels have been added; neighbours are found once.

    Args:
        features: (N, D) features.
        strategy: the strategy.
        selection: method of `next_to_label`.
        seed: seed of the random choices.
        text_of: function that returns the features of class names; None if they are not used.
        logit_scale: factor of the cosines between items and class names; None: 100.

    Attributes:
        hint: why class names are not used, if they are meant to be; None otherwise.
        order: (N,) the order in which the audit asks for items.
    """

    def __init__(
        self,
        features: NDArray[Any],
        strategy: Strategy,
        *,
        selection: Selection = "variance",
        seed: int = 0,
        text_of: TextOf | None = None,
        logit_scale: float | None = None,
    ) -> None:
        self.features, self.selection, self.seed = features, selection, seed
        self.text_of, self.logit_scale = text_of, logit_scale
        self.hint: str | None = None
        self.order = audit_order(len(features), seed)
        self._classifier = TransductiveClassifier(strategy)

    def predict(self, classes: Sequence[str], y: NDArray[np.int64], number: int) -> Predicted | None:
        """Label all items.

        Args:
            classes: K class names.
            y: (N,) index of each given label, `OPEN` for the others.
            number: number of answers.

        Returns:
            The predictions; None if there is evidence for fewer than two classes.
        """
        known = y != OPEN
        text = self.text_of(classes) if self.text_of is not None and len(classes) > 1 else None
        self.hint = text if isinstance(text, str) else None
        # Names that are sorted as the classes are given, and differ from the mark of an unknown label.
        names = np.array([f"{place:06d}" for place in range(len(classes))])
        evidence: dict[str, Any] = {}
        if text is not None and self.hint is None:
            evidence = {"class_names": names.tolist(), "text": text, "logit_scale": self.logit_scale}
        elif not known.any():
            self._classifier.prepare(self.features)
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about class sizes, which the page cannot act on
            fitted = self._classifier.fit(self.features, np.where(known, names[y], ""), **evidence)
        if len(fitted.classes_) < 2:
            return None
        columns = np.array([int(name) for name in fitted.classes_])
        probabilities = np.zeros((len(y), len(classes)), dtype=np.float32)
        probabilities[:, columns] = fitted.label_distributions_
        left_out = np.zeros_like(probabilities)
        left_out[np.ix_(fitted.labelled_, columns)] = fitted.left_out_distributions()
        return Predicted(number, tuple(classes), probabilities, left_out)

    def choose(self, candidates: NDArray[np.bool_], n: int, number: int) -> list[int]:
        """Choose up to n of the candidates to label next, after `predict`.

        Args:
            candidates: (N,) which items may be chosen.
            n: number of items.
            number: number of answers, which changes random choices.
        """
        excluded = np.flatnonzero(~candidates)
        seed = int(np.random.default_rng([self.seed, number]).integers(2**31))
        chosen = next_to_label(self._classifier, n, method=self.selection, exclude=excluded, random_state=seed)
        return [int(row) for row in chosen]

    def step(self, snapshot: Snapshot) -> tuple[Predicted | None, Shown]:
        """Label the pile anew, compare the audit with it, and choose the next batch.

        The answers of the audit are not used to fit, so that the predictions can be compared with all of them. The
        selection treats the items of the audit, and those answered by hand, as unlabelled: one that it takes leaves
        them (see `fsl.labelling.audit`).

        Returns:
            The predictions, None without evidence for two classes; and the line of the journal.
        """
        given, answered, by_hand = snapshot.given, snapshot.answered, snapshot.by_hand.copy()
        fitted = np.where((given >= 0) & ~snapshot.audit, given, OPEN)
        predicted = self.predict(snapshot.classes, fitted, snapshot.number)
        shown = Shown(population=len(given))
        if predicted is not None:
            asked, hand = np.flatnonzero(snapshot.audit & answered), np.flatnonzero(by_hand)
            shown = Shown(
                labels=int((fitted != OPEN).sum()),
                right=int((predicted.probabilities[asked].argmax(axis=1) == given[asked]).sum()),
                audited=len(asked),
                population=len(given) - int((answered & ~snapshot.audit).sum()),
                by_hand=len(hand),
                by_hand_right=int((predicted.left_out[hand].argmax(axis=1) == given[hand]).sum()),
            )
        free = given == OPEN
        wanted = min(snapshot.batch, int(free.sum()))
        if not wanted:
            return predicted, shown
        if by_hand.any():  # the selection must not know what was answered by hand
            self.predict(snapshot.classes, np.where(by_hand, OPEN, fitted), snapshot.number)
        number = 0 if predicted is None else max(1, round(AUDITED * wanted)) if wanted > 1 else 0
        candidates = free | (snapshot.audit & answered) | by_hand
        batch, taken = list[int](), list[int]()
        while len(batch) < wanted - number and candidates.any():
            for row in self.choose(candidates, wanted - number - len(batch), snapshot.number):
                candidates[row] = False
                (batch if free[row] else taken).append(row)
        free[batch] = by_hand[taken] = False
        # The next ones in the order are audited, answered by hand or not, so that their number does not depend on it.
        reached = [int(row) for row in self.order if free[row] or by_hand[row]][:number]
        drawn, joined = [row for row in reached if free[row]], [row for row in reached if not free[row]]
        batch += drawn
        places = np.random.default_rng([self.seed, snapshot.number]).permutation(len(batch))  # hides the audit
        rows = {"batch": [batch[place] for place in places], "drawn": drawn, "taken": taken, "joined": joined}
        return predicted, shown.model_copy(update={name: snapshot.named(own) for name, own in rows.items()})

    def random_step(self, snapshot: Snapshot) -> Shown:
        """The line of the journal with a random batch, where `step` fails."""
        rows = np.random.default_rng([self.seed, snapshot.number]).permutation(np.flatnonzero(snapshot.given == OPEN))
        return Shown(population=len(snapshot.given), batch=snapshot.named(rows[: snapshot.batch].tolist()))
