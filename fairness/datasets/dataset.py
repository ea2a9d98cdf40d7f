"""What a data set with sensitive features is, and how the papers scale its columns."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError

Preprocess = Literal["thesis", "aaai"] | None
"""Rows divided by their length ("thesis"); columns in their standard deviations first ("aaai", and the public code
from August 2020 on); as they are (None). Without standard deviations, the column of the largest numbers decides."""


class FairDataset(NamedTuple):
    """Points and what they are to be fair about.

    Attributes:
        values: (N, D) float64, or float32 of the census; finite.
        columns: D names.
        sensitive: (N,) values by the name of each attribute; ordered categories where groups have an order.
    """

    values: NDArray[Any]
    columns: tuple[str, ...]
    sensitive: Mapping[str, Any]


class FairSource(Protocol):
    """A frozen dataclass whose fields are its config; one small file each.

    Attributes:
        name: as in the table of data sets.
    One may have `clusters` besides, the number that the papers look for.
    """

    name: ClassVar[str]

    def source(self) -> str:
        """Identity of what the points are made from (16 hexadecimal digits), quick; where files lie does not enter.

        Raises:
            InputError: where files are missing; says what to put where.
        """
        ...

    def read(self) -> FairDataset:
        """All points.

        Raises:
            InputError: for files that are missing or are not what they should be.
        """
        ...


def preprocessed(values: NDArray[Any], how: Preprocess) -> NDArray[Any]:
    """(N, D) rows scaled as the papers do; a row of zeros stays, and a column that is the same everywhere becomes 0."""
    if how is None:
        return values
    if how == "aaai":
        spread = values.std(axis=0, dtype=np.float64)
        centred = values - values.mean(axis=0, dtype=np.float64)
        values = (centred / np.where(spread > 0, spread, 1)).astype(values.dtype)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    scaled: NDArray[Any] = values / np.maximum(lengths, 1e-7)
    return scaled


def of_size(name: str, path: object, found: int, expected: int) -> None:
    """Raises: InputError: another number of rows than the data set has."""
    if found != expected:
        raise InputError(f"dataset {name}: {path} holds {found:,} rows, not {expected:,}; fetch the whole file again")
