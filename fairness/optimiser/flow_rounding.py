"""Rounding of a fractional assignment that keeps the count of each group in each cluster within one."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

_WHOLE = 1e-6
"""Distance from an integer below which a count is taken to be that integer."""


def rounded(shares: csr_array, cost: NDArray[np.floating], cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """The cheapest (N,) labels in the support of fractional shares that keep the counts of cells and clusters.

    Each label is a cluster in which the point has a share. The number of points of each cell of groups in each cluster,
    and of each cluster, is that of the shares, rounded down or up. This is a flow from the points to the cells of each
    cluster and on to the clusters. All bounds are integers, so it has an integral optimum, which costs no more than the
    shares. With one attribute the count of a group in a cluster changes by less than 1; with several, by less than the
    number of its cells. (Bera et al. 2019 drop constraints one by one instead, and end within 4 A + 3 with A
    attributes.) Only points with several shares enter; at a vertex of the fair assignment there are about as many as
    bounds.
    """
    clusters = shares.shape[1]
    entries = shares.tocoo()
    labels = np.full(shares.shape[0], -1)
    integral = entries.data >= 1 - _WHOLE
    labels[entries.row[integral]] = entries.col[integral]
    fractional = (labels[entries.row] < 0) & (entries.data > 0)
    rows, columns, share = entries.row[fractional], entries.col[fractional], entries.data[fractional]
    if not len(rows):
        return labels
    _, point = np.unique(rows, return_inverse=True)
    _, cell = np.unique(cells[rows] * clusters + columns, return_inverse=True)
    sums = [_sums(point), _sums(cell), _sums(columns)]
    counts = [total @ share for total in sums]
    counts[0] = np.ones(len(counts[0]))
    entry_costs = cost[rows, columns].astype(np.float64)
    spread = float(np.ptp(entry_costs))
    result = milp(
        (entry_costs - entry_costs.min()) / (spread or 1.0),
        integrality=np.ones(len(rows)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(total, np.floor(count + _WHOLE), np.ceil(count - _WHOLE))
            for total, count in zip(sums, counts, strict=True)
        ],
    )
    if result.x is None:
        raise RuntimeError(f"HiGHS did not round the assignment: {result.message}")
    chosen = result.x > 0.5
    labels[rows[chosen]] = columns[chosen]
    return labels


def _sums(into: NDArray[np.integer]) -> csr_array:
    """Sparse matrix that sums entries by their target index."""
    return csr_array((np.ones(len(into)), (into, np.arange(len(into)))), shape=(int(into.max()) + 1, len(into)))
