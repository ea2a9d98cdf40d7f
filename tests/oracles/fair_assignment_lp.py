"""The fair assignment as one linear programme over all N K variables, row by row as it is printed."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog


def fair_lp(
    cost: NDArray[np.float64], indicators: NDArray[np.bool_], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]] | None:
    """Least cost of shares x (N, K) with lower_j sum_p x_pk <= sum_{p in j} x_pk <= upper_j sum_p x_pk, and the shares;
    None where there are none."""
    N, K = cost.shape
    simplex = np.zeros((N, N * K))
    for p in range(N):
        simplex[p, p * K : (p + 1) * K] = 1
    rows = []
    for j in range(indicators.shape[1]):
        for k in range(K):
            above, below = np.zeros((N, K)), np.zeros((N, K))
            for p in range(N):
                above[p, k] = float(indicators[p, j]) - upper[j]
                below[p, k] = lower[j] - float(indicators[p, j])
            rows += [above.ravel(), below.ravel()]
    found = linprog(cost.ravel(), np.array(rows), np.zeros(len(rows)), simplex, np.ones(N), method="highs")
    return None if found.x is None else (float(found.fun), found.x.reshape(N, K))
