"""Given labels that the other labels contradict, with the probability that each is wrong.

Each label is left out in turn, in closed form: ridge regression has the leave-one-out predictions
y_i - (y_i - f(x_i)) / (1 - h_i), with the leverage h_i (Allen 1974). Nothing is fitted again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from clustering.foundation.errors import InputError
from fsl.transductive_classifier import TransductiveClassifier

_EXPECTED, _WEIGHT = 0.05, 20  # the prior of the share of wrong labels, and its weight in labels
_SMALLEST = 1e-12  # lower bound of probabilities, so that their logarithms are finite


@dataclass(frozen=True, eq=False)
class Suspicious:
    """Labelled points in order, the most suspicious first.

    Attributes:
        points: (L,) indices of the labelled points in the pile.
        probability: (L,) probability that the given label is wrong.
        suggested: (L,) the most probable other class.
        rate: estimated share of wrong labels among all.
    """

    points: NDArray[np.int64]
    probability: NDArray[np.float64]
    suggested: NDArray[Any]
    rate: float


def suspicious_labels(classifier: TransductiveClassifier) -> Suspicious:
    """Rank the given labels by the probability that they are wrong.

    Args:
        classifier: after `fit`.

    Raises:
        InputError: fewer than two classes have labels.
    """
    left_out, points = classifier.left_out_distributions(), classifier.labelled_
    own = classifier.label_distributions_[points].argmax(axis=1)
    if len(np.unique(own)) < 2:
        raise InputError("labels of at least two classes are needed to find wrong ones")
    probability, suggested, rate = _wrong(np.log(np.maximum(left_out, _SMALLEST)), own)
    order = np.argsort(-probability, kind="stable")
    return Suspicious(points[order], probability[order], classifier.classes_[suggested[order]], rate)


def _wrong(
    scores: NDArray[np.floating], labels: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.int64], float]:
    """Probabilities (L,) that labels are wrong, most probable other labels (L,), and rate of wrong labels.

    The true label has probabilities p = softmax(scores / T). The given one is the true label with probability 1 - e,
    and any other one with e / (K - 1). T and e maximise the likelihood of the given labels, with a prior for e. A label
    whose class has no other label cannot be judged; its probability is e. The (L, K) scores are log-probabilities of
    each labelled point, from predictions without its own label; the labels are in 0, ..., K - 1.
    """
    rows, others = np.arange(len(labels)), scores.shape[1] - 1
    judged = np.bincount(labels, minlength=others + 1)[labels] > 1

    def shares(parameters: Any) -> tuple[NDArray[Any], NDArray[Any], float]:
        p = np.exp(log_softmax(scores * np.exp(parameters[0]), axis=1)[rows, labels])
        e = float(expit(parameters[1]))
        return (1 - e) * p, e / others * (1 - p), e

    def loss(parameters: Any) -> float:
        right, wrong, e = shares(parameters)
        likelihood = np.log(np.maximum(right + wrong, 1e-300))[judged].sum()
        prior = _WEIGHT * (_EXPECTED * np.log(e + 1e-300) + (1 - _EXPECTED) * np.log(1 - e + 1e-300))
        return -float(likelihood + prior) / len(labels)

    start = np.array([-np.log(max(float(np.std(scores)), 1e-12)), -3.0])
    best = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-7})
    right, wrong, e = shares(best.x)
    probability = np.where(judged, wrong / np.maximum(right + wrong, 1e-300), e)
    rest = np.array(scores)
    rest[rows, labels] = -np.inf
    return probability, rest.argmax(axis=1), e
