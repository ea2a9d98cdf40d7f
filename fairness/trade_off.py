"""Trade-off between objective and fairness, along weights and across methods."""

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clustering.foundation.errors import InputError

GRID = (0.0, *(float(weight) for weight in np.geomspace(1e-2, 1e3, 13)))
"""Weights of a path, in units of a method's default weight: from almost no effect of fairness to fairness alone."""

_RELATIVE, _ABSOLUTE = 0.01, 1e-4
"""Errors count as equal if they differ by less than this share of the lowest one, or this many nats."""


def path_weights(weights: Sequence[float] | None) -> list[float]:
    """The weights, or the default grid if None.

    Raises:
        InputError: there are no weights, or one is not a number of 0 or more.
    """
    requested: Any = GRID if weights is None else weights
    values = list(requested) if isinstance(requested, Iterable) and not isinstance(requested, str) else [requested]
    real = (isinstance(weight, numbers.Real) and not isinstance(weight, bool) for weight in values)
    if not values or not all(real) or not all(0 <= weight < math.inf for weight in values):
        raise InputError(f"weights must be a non-empty sequence of numbers of 0 or more, not {values}")
    return [float(weight) for weight in values]


def smallest_best(weights: ArrayLike, errors: ArrayLike) -> int | None:
    """Index of the smallest weight that reaches the lowest fairness error, up to 1 % of it or 1e-4 nats.

    Args:
        weights: (W,), NaN for a method without a weight.
        errors: (W,), NaN if unknown.

    Returns:
        The index, or None if no error is known.
    """
    known = np.asarray(errors, dtype=np.float64)
    if np.isnan(known).all():
        return None
    least = np.nanmin(known)
    good = np.flatnonzero(known <= least + max(_RELATIVE * least, _ABSOLUTE))
    return int(good[np.argmin(np.nan_to_num(np.asarray(weights, dtype=np.float64)[good]))])


def pareto_front(objectives: ArrayLike, errors: ArrayLike) -> NDArray[np.int64]:
    """Indices of the points (n,) that no other point beats in both objective and error, by rising objective.

    Of points that are equal in both, one is listed.
    """
    objective, error = np.asarray(objectives, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(objective) & np.isfinite(error))
    order = known[np.lexsort((error[known], objective[known]))]
    if not len(order):
        return order
    lowest = np.minimum.accumulate(error[order])
    front: NDArray[np.int64] = order[np.concatenate([[True], lowest[1:] < lowest[:-1]])]
    return front
