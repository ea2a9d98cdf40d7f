"""From assignments to labels that keep the counts of the groups."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from clustering.errors import InputError

_MOST = 1 << 20
"""Variables of the linear programme of a cell, at most: some minutes."""


def whole(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """(K,) whole numbers of the same (whole) sum as counts (K,), each within one of its count: the largest remainders
    are rounded up, ties to the lowest."""
    floors = np.floor(counts + 1e-9)
    left = round(float(counts.sum() - floors.sum()))
    order = np.argsort(-(counts - floors), kind="stable")
    floors[order[:left]] += 1
    return floors.astype(np.int64)


def round_to_counts(assignments: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n,) labels of the points of one cell, of which each cluster gets as many as its column of the assignments sums
    up to, in whole numbers, and which agree with the assignments as far as that allows: a transport problem.

    Args:
        assignments: (n, K) rows on the simplex.

    Raises:
        InputError: more than 2^20 assignments.
    """
    points, clusters = assignments.shape
    if points * clusters > _MOST:
        raise InputError(
            f"rounding='flow': {points} points lie between clusters, a programme of {points * clusters} variables; "
            "lower tol, gap_tol and sweep_tol so that fewer do, or set rounding='argmax'"
        )
    if points == 0:
        return np.zeros(0, dtype=np.int64)
    wanted = whole(assignments.sum(axis=0))
    places = np.arange(points * clusters)
    ones = np.ones(points * clusters)
    rows = sparse.csr_matrix((ones, (places // clusters, places)))
    columns = sparse.csr_matrix((ones, (places % clusters, places)))
    found = linprog(
        -assignments.ravel(),
        A_eq=sparse.vstack([rows, columns]),
        b_eq=np.r_[np.ones(points), wanted],
        bounds=(0, 1),
        method="highs-ds",  # a vertex, which is whole: the constraints are those of a flow
    )
    if found.status != 0:
        raise RuntimeError(f"the transport problem was not solved: {found.message}")
    labels: NDArray[np.int64] = found.x.reshape(points, clusters).argmax(axis=1)
    return labels
