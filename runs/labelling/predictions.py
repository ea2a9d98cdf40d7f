"""Predictions for the whole pile from the labels given so far, and the next items to label."""

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsl.episodes import Strategy
from fsl.few_shot_classifier import FewShotClassifier

UNKNOWN = -1
TextOf = Callable[[Sequence[str]], "NDArray[np.floating] | None"]


class Predicted(NamedTuple):
    """Predictions for N items.

    Attributes:
        number: number of answers they are based on.
        classes: K class names.
        probabilities: (N, K) float32; 0 for a class without evidence.
    """

    number: int
    classes: tuple[str, ...]
    probabilities: NDArray[np.float32]

    def label(self, row: int) -> tuple[str, float]:
        """The most likely class of an item, and its probability."""
        best = int(self.probabilities[row].argmax())
        return self.classes[best], float(self.probabilities[row, best])


class Labeller:
    """Labels a pile anew whenever labels have been added.

    Args:
        features: (N, D) float32 features.
        strategy: the strategy.
        seed: seed of the random choices.
        text_of: function that returns the features of class names; None if they are not used.
        logit_scale: factor of the cosines between items and class names; None: 100.
    """

    def __init__(
        self,
        features: NDArray[np.float32],
        strategy: Strategy,
        *,
        seed: int = 0,
        text_of: TextOf | None = None,
        logit_scale: float | None = None,
    ) -> None:
        self.features, self.strategy, self.seed = features, strategy, seed
        self.text_of, self.logit_scale = text_of, logit_scale

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
        present = np.unique(y[known])
        text = self.text_of(classes) if self.text_of is not None and len(classes) > 1 else None
        if text is None and len(present) < 2:
            return None
        names = np.array([f"{place:06d}" for place in range(len(classes))])  # sorted as the classes are given
        evidence = (
            {} if text is None else {"class_names": names.tolist(), "text": text, "logit_scale": self.logit_scale}
        )
        classifier = FewShotClassifier(self.strategy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if known.any():
                classifier.fit(self.features[known], names[y[known]], **evidence)
            else:
                classifier.fit(**evidence)
            probabilities = np.zeros((len(y), len(classes)), dtype=np.float32)
            columns = np.array([int(name) for name in classifier.classes_])
            if not known.all():
                probabilities[np.ix_(~known, columns)] = classifier.predict_proba(self.features[~known])
        probabilities[known, y[known]] = 1
        return Predicted(number, tuple(classes), probabilities)

    def choose(
        self, predicted: Predicted | None, y: NDArray[np.int64], candidates: NDArray[np.bool_], n: int
    ) -> list[int]:
        """Choose up to n of the candidates to label next.

        Args:
            predicted: the predictions for `y`; None before there are any.
            y: (N,) given labels as in `predict`.
            candidates: (N,) which items may be chosen.
            n: number of items.
        """
        rows = np.flatnonzero(candidates)
        if predicted is None:
            generator = np.random.default_rng([self.seed, int((y != UNKNOWN).sum()), len(rows)])
            return [int(row) for row in generator.permutation(rows)[:n]]
        best = np.sort(predicted.probabilities[rows], axis=1)[:, -2:]
        order = np.argsort(best[:, -1] - best[:, 0], kind="stable")
        return [int(row) for row in rows[order[:n]]]
