"""Whole points from a fractional assignment, every group's count in every cluster within one of what it was."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from clustering.foundation.errors import InputError

_WHOLE = 1e-6
"""How far from an integer a count is one all the same."""

_MOST = 1 << 20
"""Assignments of points between clusters, at most: some minutes."""


def rounded(shares: csr_array, cost: NDArray[np.floating], cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """The cheapest (N,) labels of which each is one that the point has a share in, while the points of every cell of
    groups in every cluster, and of every cluster, remain what they are by the shares, rounded down or up.

    This is a flow: from the points to the cells of each cluster and on to the clusters. Since all bounds are integers
    it has an optimum in integers, which costs no more than the shares do. With one attribute, so, the count of a group
    in a cluster changes by less than 1; with several, by less than the number of the cells that it is made of. (Bera et
    al. 2019 drop constraints one after the other instead, and end within 4 A + 3 with A attributes.) Only points with
    several shares enter: at a vertex of the fair assignment about as many as there are bounds.

    Args:
        shares: (N, K) >= 0, rows sum to one.
        cost: (N, K).
        cells: (N,) combination of groups of each point, 0..C-1.
    """
    clusters = shares.shape[1]
    entries = shares.tocoo()
    labels = np.full(shares.shape[0], -1)
    whole = entries.data >= 1 - _WHOLE
    labels[entries.row[whole]] = entries.col[whole]
    left = (labels[entries.row] < 0) & (entries.data > 0)
    rows, columns, share = entries.row[left], entries.col[left], entries.data[left]
    if not len(rows):
        return labels
    _, point = np.unique(rows, return_inverse=True)
    _, cell = np.unique(cells[rows] * clusters + columns, return_inverse=True)
    sums = [_sums(point), _sums(cell), _sums(columns)]
    counts = [total @ share for total in sums]
    counts[0] = np.ones(len(counts[0]))
    paid = cost[rows, columns].astype(np.float64)
    spread = float(np.ptp(paid))
    found = milp(
        (paid - paid.min()) / (spread or 1.0),
        integrality=np.ones(len(rows)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(total, np.floor(count + _WHOLE), np.ceil(count - _WHOLE))
            for total, count in zip(sums, counts, strict=True)
        ],
    )
    if found.x is None:
        raise RuntimeError(f"HiGHS did not round the assignment: {found.message}")
    taken = found.x > 0.5
    labels[rows[taken]] = columns[taken]
    return labels


def rounded_assignments(assignments: NDArray[np.floating], cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """(n,) labels that agree with assignments as far as they can while the counts of cells remain, as of `rounded`.

    Args:
        assignments: (n, K) rows on the simplex; below 1e-6 they are 0.
        cells: (n,) combination of groups of each point, 0..C-1.

    Raises:
        InputError: more than 2^20 assignments.
    """
    if assignments.size > _MOST:
        raise InputError(
            f"rounding='flow': {len(assignments)} points lie between clusters, a programme of {assignments.size} "
            "variables; lower tol, gap_tol and sweep_tol so that fewer do, or set rounding='argmax'"
        )
    kept = np.where(assignments > _WHOLE, assignments, 0.0)
    return rounded(csr_array(kept / kept.sum(axis=1, keepdims=True)), -assignments, cells)


def _sums(into: NDArray[np.integer]) -> csr_array:
    """Adds entries by where they go."""
    return csr_array((np.ones(len(into)), (into, np.arange(len(into)))), shape=(int(into.max()) + 1, len(into)))
