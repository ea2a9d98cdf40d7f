"""Given labels that the other labels contradict, with the probability that each is wrong.

Each label is left out in turn, in closed form. The features are smoothed over the neighbour graph of the whole pile,
which takes no labels, and ridge regression from them to one-hot labels has the leave-one-out predictions
y_i - (y_i - f(x_i)) / (1 - h_i), with the leverage h_i (Allen 1974).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array, diags_array
from scipy.special import expit, log_softmax

from clustering.foundation.errors import InputError

RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Candidates for the penalty, in units of the mean eigenvalue of the scatter matrix of the labelled points."""

_SMOOTHING = 0.5
_STEPS = 6  # the rest of the series is below 2 %
_EXPECTED, _WEIGHT = 0.05, 20  # the prior of the share of wrong labels, and its weight in labels

Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Suspicious:
    """Labelled points in order, the most suspicious first.

    Attributes:
        points: (L,) indices of the labelled points in the pile.
        probability: (L,) probability that the given label is wrong.
        suggested: (L,) the most probable other label.
        rate: estimated share of wrong labels among all.
    """

    points: NDArray[np.int64]
    probability: NDArray[np.float64]
    suggested: NDArray[np.int64]
    rate: float


def suspicious_labels(features: ArrayLike, labels: ArrayLike, neighbours: ArrayLike) -> Suspicious:
    """Rank the given labels by the probability that they are wrong.

    Time: (N k D) for the smoothing and (L D^2 + L D K) for the labels; there is no refit. No array of L x L is needed.

    Args:
        features: (N, D) features of the pile, in the form that the classifier compares, for example of unit length.
        labels: (N,) integers, 0, ..., K - 1 for the given labels and -1 for the others.
        neighbours: (N, k) indices of the nearest neighbours of each point, without the point itself.

    Raises:
        InputError: the arrays do not fit together, or fewer than two classes have labels.
    """
    values, near, given, points, own = checked_pile(features, labels, neighbours)
    present = np.unique(given[points])
    smooth = smoothed(values, near)[points]
    fits = [wrong_probabilities(scores, own) for scores in left_out_scores(smooth, own, RIDGES)]
    _, probability, suggested, rate = min(fits, key=lambda fit: fit[0])
    order = np.argsort(-probability, kind="stable")
    return Suspicious(points[order], probability[order], present[suggested[order]], rate)


def checked_pile(
    features: ArrayLike, labels: ArrayLike, neighbours: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Features (N, D), neighbours (N, k), labels (N,), the indices (L,) of the labelled points, and their classes (L,)
    numbered without gaps.

    Raises:
        InputError: the arrays do not fit together, or fewer than two classes have labels.
    """
    values, given, near = np.asarray(features), np.asarray(labels), np.asarray(neighbours)
    if values.ndim != 2 or given.shape != values.shape[:1] or near.shape[:1] != values.shape[:1] or near.ndim != 2:
        raise InputError(
            "features, labels and neighbours must be (N, D), (N,) and (N, k), "
            f"not {values.shape}, {given.shape} and {near.shape}"
        )
    if given.dtype.kind not in "iu" or given.min(initial=-1) < -1:
        raise InputError("labels must be integers, -1 for points without a label")
    points = np.flatnonzero(given >= 0)
    present, own = np.unique(given[points], return_inverse=True)
    if len(present) < 2:
        raise InputError("labels of at least two classes are needed")
    return values, near, given, points, own


def graph_of(neighbours: NDArray[np.integer]) -> csr_array:
    """(N, N) W, 1 for mutual neighbours and 1/2 for one-sided ones."""
    count, k = neighbours.shape
    ones = np.ones(count * k, dtype=np.float32)
    arcs = csr_array((ones, neighbours.ravel(), np.arange(0, count * k + 1, k)), shape=(count, count))
    return csr_array((arcs + arcs.T) / np.float32(2))


def smoothed(features: Floats, neighbours: NDArray[np.integer]) -> Floats:
    """(N, D) centred features F = (1 - a) sum_t a^t S^t X with a = 0.5 and S = D^-1/2 W D^-1/2, see `graph_of`."""
    X = np.asarray(features, dtype=np.float32)
    X = X - X.mean(axis=0)
    W = graph_of(neighbours)
    scale = diags_array(1 / np.sqrt(np.maximum(W.sum(axis=1), np.finfo(np.float32).tiny)), dtype=np.float32)
    S = csr_array(scale @ W @ scale)
    F = X
    for _ in range(_STEPS):
        F = (1 - _SMOOTHING) * X + _SMOOTHING * (S @ F)
    return np.asarray(F)


def left_out_scores(features: Floats, labels: NDArray[np.integer], ridges: tuple[float, ...]) -> list[Floats]:
    """(L, K) leave-one-out scores of ridge regression with an intercept, one array for each penalty.

    Args:
        features: (L, D) of the labelled points.
        labels: (L,) in 0, ..., K - 1.
        ridges: penalties > 0, in units of the mean eigenvalue of the scatter matrix.
    """
    A = np.asarray(features, dtype=np.float64)
    A = A - A.mean(axis=0)
    one_hot = np.eye(int(labels.max()) + 1)[labels]
    shares = one_hot.mean(axis=0)
    values, vectors = np.linalg.eigh(A.T @ A)
    values = np.maximum(values, 0)
    rotated = A @ vectors
    targets = rotated.T @ one_hot
    found = []
    for ridge in ridges:
        shrunk = rotated / (values + ridge * max(float(values.mean()), 1e-12))
        leverage = np.einsum("ij,ij->i", shrunk, rotated)[:, None] + 1 / len(A)
        fitted = shrunk @ targets + shares
        found.append(one_hot - (one_hot - fitted) / np.maximum(1 - leverage, 1e-9))
    return found


def ridge_scores(features: Floats, labels: NDArray[np.integer], ridge: float, points: Floats) -> Floats:
    """(N, K) scores of points (N, D) by the ridge regression of `left_out_scores`, with all labels."""
    mean = features.mean(axis=0)
    A = np.asarray(features - mean, dtype=np.float64)
    shares = np.bincount(labels) / len(labels)
    scatter = A.T @ A
    penalty = ridge * max(float(np.trace(scatter)) / len(scatter), 1e-12)
    targets = A.T @ (np.eye(len(shares))[labels] - shares)
    coefficients = np.linalg.solve(scatter + penalty * np.eye(len(scatter)), targets)
    return np.asarray((points - mean) @ coefficients + shares)


def wrong_probabilities(
    scores: Floats, labels: NDArray[np.integer]
) -> tuple[float, NDArray[np.float64], NDArray[np.int64], float]:
    """Log loss, probabilities (L,) that labels are wrong, most probable other labels (L,), and rate of wrong labels.

    The true label has probabilities p = softmax(scores / T). The given one is the true label with probability 1 - e,
    and any other one with e / (K - 1). T and e maximise the likelihood of the given labels, with a prior for e. A label
    whose class has no other label cannot be judged; its probability is e.

    Args:
        scores: (L, K) scores or log-probabilities of each labelled point, from predictions without its own label.
        labels: (L,) given labels, in 0, ..., K - 1.
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
    return float(best.fun), probability, rest.argmax(axis=1), e
