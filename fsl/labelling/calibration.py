"""Calibrated probabilities: one temperature, from labels that the prediction has not seen (Guo et al. 2017)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from clustering.foundation.errors import InputError

FLOOR = 1e-12
"""Smaller probabilities count as this much, since a temperature cannot mend a probability of 0."""

_LARGEST = 8.0  # the logarithm of the temperature is between -8 and 8


def fit_temperature(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """The temperature T > 0 for which p^(1/T), normalised, has the lowest log loss.

    One wrong prediction is counted besides the labels, in favour of the second class. So a few labels that are all
    predicted right do not give certainty (for the same reason, Platt 1999 moves his targets away from 0 and 1).

    Args:
        probabilities: (n, K) of points whose labels were not used to fit: held out, or left out in turn.
        labels: (n,) their labels, in 0, ..., K - 1.

    Raises:
        InputError: there are no labels, or the arrays do not fit together.
    """
    rows, classes = checked(probabilities, labels)
    logs = np.log(np.maximum(rows, FLOOR))
    own = logs[np.arange(len(logs)), classes]
    second = np.partition(logs, -2, axis=1)[:, -2].mean() if logs.shape[1] > 1 else logs.mean()

    def loss(log_factor: float) -> float:
        factor = np.exp(log_factor)
        normalisers = np.log(np.exp(factor * (logs - logs.max(axis=1, keepdims=True))).sum(axis=1))
        normalisers += factor * logs.max(axis=1)
        return float((normalisers - factor * own).sum() + normalisers.mean() - factor * second)

    return float(np.exp(-minimize_scalar(loss, bounds=(-_LARGEST, _LARGEST), method="bounded").x))


def at_temperature(probabilities: ArrayLike, temperature: float) -> NDArray[np.float64]:
    """(n, K) probabilities p^(1/T), normalised to sum to one. The order of the classes does not change."""
    if not temperature > 0:
        raise InputError(f"temperature={temperature} must be above 0")
    logs = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), FLOOR))
    return np.asarray(np.exp(log_softmax(logs / temperature, axis=1)))


def checked(probabilities: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Probabilities (n, K) and labels (n,) that fit together.

    Raises:
        InputError: they do not.
    """
    rows, classes = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if rows.ndim != 2 or classes.shape != rows.shape[:1] or not len(rows):
        raise InputError(
            f"probabilities must be (n, K) and labels (n,) with n > 0, not {rows.shape} and {classes.shape}"
        )
    if not np.isfinite(rows).all() or (rows < 0).any():
        raise InputError("probabilities must be finite and not negative")
    if classes.dtype.kind not in "iu" or classes.min() < 0 or classes.max() >= rows.shape[1]:
        raise InputError(
            f"labels must be columns of the probabilities, integers from 0 to {rows.shape[1] - 1}; for labels of a "
            "classifier, give np.searchsorted(classifier.classes_, labels)"
        )
    return rows, classes
