"""Selection of digits with unequal class sizes."""

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream


def uneven_rows(labels: NDArray[np.int64], points: int, share: float, *, seed: int, name: str) -> NDArray[np.int64]:
    """Indices (m,), ascending, of random points of ten classes (N,), where m is about `points`.

    Classes 0 to 4 have equal parts of the given share of the points, and classes 5 to 9 equal parts of the rest.

    Raises:
        InputError: a class has too few points; `name` is the name of the requested data set.
    """
    rows = []
    for digit in range(10):
        count = round(points * (share if digit < 5 else 1 - share) / 5)
        available = np.flatnonzero(labels == digit)
        if count > len(available):
            raise InputError(
                f"dataset {name}: points={points} and share={share:g} need {count:,} of digit {digit}, but "
                f"there are {len(available):,}; set fewer points"
            )
        rows.append(stream(seed, name, digit).permutation(available)[:count])
    return np.sort(np.concatenate(rows))
