"""Binning of numeric sensitive attributes."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError

Bins = int | Sequence[float] | Mapping[str, Any] | None
"""Bins of numeric attributes: a number of bins with about equally many points, the edges of right-closed bins, or a
dict from attribute names to either. None makes every value a group."""


def binned(name: str, values: NDArray[np.float64], bins: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Assign numbers to right-closed bins.

    Values equal to the lowest edge are in the first bin. NaN, and values beyond edges from an earlier fit, are in the
    outer bins.

    Args:
        name: name of the attribute.
        values: (N,) numbers.
        bins: number of bins with about equally many points, or rising edges.

    Returns:
        (N,) bin of each number, 0..B-1, and (B + 1,) edges.

    Raises:
        InputError: a value is infinite, the bins are invalid, or they do not cover all values.
    """
    if np.isinf(values).any():
        raise InputError(
            f"sensitive_features: {name!r} is infinite in row {int(np.isinf(values).argmax())}; replace it by a "
            "finite number"
        )
    edges = _edges(name, values, bins)
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2), edges


def check_bins(bins: Any, name: str | None = None) -> None:
    """Check bins, of one attribute or of all, even if they will not be used.

    Raises:
        InputError: the bins are invalid.
    """
    if isinstance(bins, Mapping):
        for attribute, value in bins.items():
            check_bins(value, str(attribute))
        return
    if bins is None or (isinstance(bins, (int, np.integer)) and not isinstance(bins, bool) and bins >= 2):
        return
    if isinstance(bins, Sequence | np.ndarray) and not isinstance(bins, str):
        try:
            edges = np.asarray(bins, dtype=np.float64)
        except (TypeError, ValueError):
            edges = np.empty(0)
        if edges.ndim == 1 and len(edges) >= 2 and np.all(np.diff(edges) > 0):
            return
    owner = "" if name is None else f" of {name!r}"
    raise InputError(
        f"numeric_bins{owner} must be an integer of 2 or more, or at least two increasing edges, not {bins!r}"
    )


def _edges(name: str, values: NDArray[np.float64], bins: Any) -> NDArray[np.float64]:
    if isinstance(bins, np.ndarray):  # edges from an earlier fit
        return bins
    known = values[~np.isnan(values)]
    if isinstance(bins, (int, np.integer)) and bins >= 2:
        edges = np.unique(np.quantile(known, np.linspace(0, 1, int(bins) + 1)))
    else:
        check_bins(bins, name)
        edges = np.asarray(bins, dtype=np.float64)
        outside = (known < edges[0]) | (known > edges[-1])
        if outside.any():
            raise InputError(
                f"numeric_bins of {name!r} cover {edges[0]:g} to {edges[-1]:g}, but there is a value "
                f"{known[outside][0]:g}; add an edge (inf is allowed)"
            )
    return edges if len(edges) > 1 else np.repeat(edges, 2)


def bin_names(
    name: str, codes: NDArray[np.int64], known: NDArray[np.bool_], edges: NDArray[np.float64]
) -> tuple[NDArray[np.int64], list[Any]]:
    """(N,) numbers of the bins that have points, and their names."""
    counts = np.bincount(codes[known], minlength=len(edges) - 1)
    small = (counts > 0) & (counts < 0.01 * known.sum())
    names = [f"{'[' if i == 0 else '('}{low:g}, {high:g}]" for i, (low, high) in enumerate(_pairs(edges))]
    if small.any():
        warnings.warn(f"{name!r}: bin {names[int(small.argmax())]} has fewer than 1 % of the points", stacklevel=5)
    kept = np.flatnonzero(counts)
    rank = np.zeros(len(counts), dtype=np.int64)
    rank[kept] = np.arange(len(kept))
    return rank[codes], [names[i] for i in kept]


def _pairs(edges: NDArray[np.float64]) -> list[tuple[float, float]]:
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
