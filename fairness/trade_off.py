"""The trade-off between an objective and fairness, along weights and over methods."""

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clustering.foundation.errors import InputError

GRID = (0.0, *(float(weight) for weight in np.geomspace(1e-2, 1e3, 13)))
"""Weights of a path in the unit of a method's default weight, from where fairness hardly counts to where it alone
does."""

_RELATIVE, _ABSOLUTE = 0.01, 1e-4
"""Of the least error, and in nats: errors that differ by no more are equally good."""


def path_weights(weights: Sequence[float] | None) -> list[float]:
    """The weights that were given, or the grid.

    Raises:
        InputError: none, or one that is no number of 0 or more.
    """
    given: Any = GRID if weights is None else weights
    asked = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    real = (isinstance(weight, numbers.Real) and not isinstance(weight, bool) for weight in asked)
    if not asked or not all(real) or not all(0 <= weight < math.inf for weight in asked):
        raise InputError(f"weights must be numbers of 0 or more, and one at least, not {asked}")
    return [float(weight) for weight in asked]


def smallest_best(weights: ArrayLike, errors: ArrayLike) -> int | None:
    """Which of W points has the smallest weight that reaches the least fairness error, up to 1 % of it or 1e-4; None
    where no error is known.

    Args:
        weights: (W,), NaN of a method without one.
        errors: (W,), NaN where it is not known.
    """
    found = np.asarray(errors, dtype=np.float64)
    if np.isnan(found).all():
        return None
    least = np.nanmin(found)
    good = np.flatnonzero(found <= least + max(_RELATIVE * least, _ABSOLUTE))
    return int(good[np.argmin(np.nan_to_num(np.asarray(weights, dtype=np.float64)[good]))])


def pareto_front(objectives: ArrayLike, errors: ArrayLike) -> NDArray[np.int64]:
    """Which points (n,) no other one beats in both objective and error, by rising objective; points that are equal in
    both are counted once."""
    objective, error = np.asarray(objectives, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(objective) & np.isfinite(error))
    order = known[np.lexsort((error[known], objective[known]))]
    if not len(order):
        return order
    lowest = np.minimum.accumulate(error[order])
    front: NDArray[np.int64] = order[np.concatenate([[True], lowest[1:] < lowest[:-1]])]
    return front
