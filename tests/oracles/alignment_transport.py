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
    sums = np.concatenate([np.kron(np.eye(n0), np.ones(n1)), np.kron(np.ones(n0), np.eye(n1))])
    limits = np.repeat([1 / n0, 1 / n1], [n0, n1])
    return float(linprog(cost.ravel(), A_eq=sums, b_eq=limits, method="highs").fun)
