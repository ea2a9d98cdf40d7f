"""Fair Clustering via Alignment as it is printed: a transport between all pairs of points of two groups."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]


def transport(first: Floats, second: Floats, centres: Floats) -> float:
    """Least mean over a joint distribution of two groups of pi_0 pi_1 ||x_0 - x_1||^2 + min_k ||T - c_k||^2, with
    T = pi_0 x_0 + pi_1 x_1."""
    n0, n1 = len(first), len(second)
    pi0, pi1 = n0 / (n0 + n1), n1 / (n0 + n1)
    cost = np.zeros((n0, n1))
    for a in range(n0):
        for b in range(n1):
            T = pi0 * first[a] + pi1 * second[b]
            cost[a, b] = pi0 * pi1 * ((first[a] - second[b]) ** 2).sum() + min(((T - c) ** 2).sum() for c in centres)
    rows, limits = [], []
    for a in range(n0):
        row = np.zeros((n0, n1))
        row[a] = 1
        rows.append(row.ravel())
        limits.append(1 / n0)
    for b in range(n1):
        row = np.zeros((n0, n1))
        row[:, b] = 1
        rows.append(row.ravel())
        limits.append(1 / n1)
    return float(linprog(cost.ravel(), A_eq=np.array(rows), b_eq=np.array(limits), method="highs").fun)
