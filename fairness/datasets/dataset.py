"""Points with sensitive features, and the scaling of columns in the papers."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Preprocess = Literal["thesis", "aaai"] | None
""""thesis" divides rows by their norm; "aaai", as the public code from August 2020 on, first divides columns by their
standard deviation; None changes nothing. Without standardisation the column with the largest numbers dominates."""


class FairDataset(NamedTuple):
    """Points with their sensitive attributes.

    Attributes:
        values: (N, D) float64, or float32 for the census; finite.
        columns: D names.
        sensitive: (N,) values by attribute name; ordered categories if the groups have an order.
    """

    values: NDArray[Any]
    columns: tuple[str, ...]
    sensitive: Mapping[str, Any]


def preprocessed(values: NDArray[Any], preprocess: Preprocess) -> NDArray[Any]:
    """(N, D) rows scaled as in the papers; rows of zeros stay zero, and constant columns become 0."""
    if preprocess is None:
        return values
    if preprocess == "aaai":
        spread = values.std(axis=0, dtype=np.float64)
        centred = values - values.mean(axis=0, dtype=np.float64)
        values = (centred / np.where(spread > 0, spread, 1)).astype(values.dtype)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    scaled: NDArray[Any] = values / np.maximum(lengths, 1e-7)
    return scaled
