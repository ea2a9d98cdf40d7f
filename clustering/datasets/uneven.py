"""Digits of uneven shares: clusters of sizes that a method may not expect."""

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream


def uneven_rows(labels: NDArray[np.int64], points: int, share: float, *, seed: int, name: str) -> NDArray[np.int64]:
    """(m,) rows, in order, of about so many random points of ten classes (N,): a share of them of classes 0 to 4, as
    many of each, the rest of 5 to 9.

    Raises:
        InputError: more points of a class than there are; `name` is that of the data set asked for.
    """
    rows = []
    for digit in range(10):
        count = round(points * (share if digit < 5 else 1 - share) / 5)
        there = np.flatnonzero(labels == digit)
        if count > len(there):
            raise InputError(
                f"dataset {name}: points={points} and share={share:g} ask for {count:,} of digit {digit}, of which "
                f"there are {len(there):,}; ask for fewer points"
            )
        rows.append(stream(seed, name, digit).permutation(there)[:count])
    return np.sort(np.concatenate(rows))
