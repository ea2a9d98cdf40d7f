"""What SLK takes in memory, by the shape of its points."""

import math
from typing import Any

import numpy as np

from clustering.neighbours import room
from clustering.row_search import by_shape

_ARRAYS = 12
"""Of N x K, that one trial works with at the same time at most."""

_DRAWS = 8
"""Of N, with which one trial draws its seeds, sums in float64 among them, and one for each draw besides."""


def needed(
    X: Any, clusters: int, *, neighbours: int | None, normalised: bool, drawn: int, together: int, kept: int
) -> dict[str, float]:
    """Bytes of all that there is at the same time besides X, by name.

    Args:
        X: (N, D), of whatever kind has a shape; float32 unless its type says float64.
        clusters: K.
        neighbours: k of the graph that is to be built; None of one that is given.
        normalised: whether rows are divided by their length.
        drawn: starts whose seeds are drawn together, from all points.
        together: starts that all points are worked on for together.
        kept: results that stay, each with its assignments.
    """
    points, columns = X.shape
    kind = str(getattr(X, "dtypes", getattr(X, "dtype", "")))
    size = 8 if "float64" in kind else 4
    sparse = hasattr(X, "nnz")
    as_it_is = isinstance(X, np.ndarray) and kind in ("float32", "float64") and X.flags.c_contiguous
    copies = size * (2 * X.nnz if sparse else points * columns) * ((not as_it_is) + normalised)
    column = size * points
    working = column * max(clusters * (_ARRAYS * together + kept), drawn * (_DRAWS + math.log(max(1, clusters))))
    graph = 0
    if neighbours is not None:
        building = room(points, columns, neighbours, "sparse" if sparse else by_shape(points, columns))
        graph = max(16 * points * neighbours, building - working)  # it is there before seeds are drawn
    return {"copies of the rows": copies, "the graph": graph, "seeds and assignments": working}
