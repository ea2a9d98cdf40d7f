"""Clustering of data too large for one machine: a `dask.array` whose rows are blocks on the workers of a Dask cluster.

Workers exchange only the rows of S at the ends of arcs between blocks, and this process receives only sums of K (D + 1)
numbers and a few scalars; no array of size N is stored here. The steps are those of `clustering.optimiser.objective`
and `clustering.optimiser.centres`, applied to every block.
"""

import sys
from typing import Any


def is_dask_array(X: Any) -> bool:
    """Whether X is a `dask.array`; False if Dask was never imported."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(X, dask.Array)
