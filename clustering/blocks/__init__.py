"""One data set too large for one machine: a `dask.array`, its rows in blocks on the workers of a Dask cluster.

What travels between workers are the rows of S that arcs lead to in other blocks, and to this process sums of K (D + 1)
numbers and a few scalars; nothing of the size of N is ever here. The steps themselves are those of
`clustering.optimiser.objective` and `clustering.optimiser.centres`, done on every block.
"""

import sys
from typing import Any


def is_dask_array(X: Any) -> bool:
    """Whether X is a `dask.array`; where Dask was never imported, nothing is."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(X, dask.Array)
