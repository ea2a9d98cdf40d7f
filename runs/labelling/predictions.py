"""Predictions for the whole pile from the labels given so far, and the next items to label."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsl.episodes import Strategy
from fsl.labelling.selection import Selection, next_to_label
from fsl.transductive_classifier import TransductiveClassifier

UNKNOWN = -1
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


class Labeller:
    """Labels a pile anew whenever labels have been added; neighbours are found once.

    Args:
        features: (N, D) float32 features.
        strategy: the strategy.
        selection: method of `next_to_label`.
        seed: seed of the random choices.
        text_of: function that returns the features of class names; None if they are not used.
        logit_scale: factor of the cosines between items and class names; None: 100.

    Attributes:
        hint: why class names are not used, if they are meant to be; None otherwise.
    """

    def __init__(
        self,
        features: NDArray[np.float32],
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
        self.classifier = TransductiveClassifier(strategy)

    def predict(self, classes: Sequence[str], y: NDArray[np.int64], number: int) -> Predicted | None:
        """Label all items.

        Args:
            classes: K class names.
            y: (N,) index of each given label, `UNKNOWN` for the others.
            number: number of answers.

        Returns:
            The predictions; None if there is evidence for fewer than two classes.
        """
        known = y != UNKNOWN
        text = self._text(classes)
        if text is None and not known.any():
            self.classifier.prepare(self.features)
            return None
        # Names that are sorted as the classes are given, and differ from the mark of an unknown label.
        names = np.array([f"{place:06d}" for place in range(len(classes))])
        labels = np.where(known, names[y], "")
        evidence: dict[str, Any] = {}
        if text is not None:
            evidence = {"class_names": names.tolist(), "text": text, "logit_scale": self.logit_scale}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about class sizes, which the page cannot act on
            fitted = self.classifier.fit(self.features, labels, **evidence)
        if len(fitted.classes_) < 2:
            return None
        columns = np.array([int(name) for name in fitted.classes_])
        probabilities = np.zeros((len(y), len(classes)), dtype=np.float32)
        probabilities[:, columns] = fitted.label_distributions_
        left_out = np.zeros_like(probabilities)
        left_out[np.ix_(fitted.labelled_, columns)] = fitted.left_out_distributions()
        return Predicted(number, tuple(classes), probabilities, left_out)

    def _text(self, classes: Sequence[str]) -> "NDArray[np.floating] | None":
        found = self.text_of(classes) if self.text_of is not None and len(classes) > 1 else None
        self.hint = found if isinstance(found, str) else None
        return None if isinstance(found, str) else found

    def choose(self, candidates: NDArray[np.bool_], n: int, number: int) -> list[int]:
        """Choose up to n of the candidates to label next, after `predict`.

        Args:
            candidates: (N,) which items may be chosen.
            n: number of items.
            number: number of answers, which changes random choices.
        """
        excluded = np.flatnonzero(~candidates)
        seed = int(np.random.default_rng([self.seed, number]).integers(2**31))
        chosen = next_to_label(self.classifier, n, method=self.selection, exclude=excluded, random_state=seed)
        return [int(row) for row in chosen]
