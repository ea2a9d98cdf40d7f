"""Discriminative clustering as its equations read: in the space of points, with n x n inverses. Shares no line with
what it judges."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, minimize

Array = NDArray[np.float64]


def dissimilarity(features: Array, penalty: float) -> Array:
    n = len(features)
    centring = np.eye(n) - np.ones((n, n)) / n
    resolvent = np.linalg.inv(centring @ features @ features.T @ centring + n * penalty * np.eye(n))
    return np.asarray(penalty * centring @ resolvent @ centring)


def ridge(features: Array, targets: Array, penalty: float) -> tuple[Array, Array, float]:
    """W, b and the value of (1/n) ||Y - Phi W - 1 b^T||^2 + penalty ||W||^2, as one least-squares problem."""
    n, d = features.shape
    rows = np.hstack([features, np.ones((n, 1))]) / np.sqrt(n)
    shrink = np.hstack([np.sqrt(penalty) * np.eye(d), np.zeros((d, 1))])
    system = np.vstack([rows, shrink])
    right = np.vstack([targets / np.sqrt(n), np.zeros((d, targets.shape[1]))])
    found = np.linalg.lstsq(system, right, rcond=None)[0]
    return found[:-1], found[-1], float(np.square(system @ found - right).sum())


def gradient(features: Array, equivalence: Array, penalty: float) -> Array:
    """-2 penalty Pi G Pi M Pi G Pi Phi."""
    n = len(features)
    centring = np.eye(n) - np.ones((n, n)) / n
    resolvent = np.linalg.inv(centring @ features @ features.T @ centring + n * penalty * np.eye(n))
    side = centring @ resolvent @ centring
    return np.asarray(-2 * penalty * side @ equivalence @ side @ features)


def left_out_error(features: Array, targets: Array, penalty: float) -> float:
    """Each point left out in turn; the penalty keeps its weight n, as the closed form has it."""
    n = len(features)
    errors = []
    for i in range(n):
        rest = np.arange(n) != i
        W, b, _ = ridge(features[rest], targets[rest], penalty * n / (n - 1))
        errors.append(np.square(targets[i] - features[i] @ W - b).sum())
    return float(np.mean(errors))


def solve_balance(
    A: Array, known: NDArray[np.bool_], m: Array, low: float, high: float, nu: float, reference: float
) -> Array:
    """The convex programme, by a solver that knows nothing of scalings."""
    n = len(A)
    unknown = np.argwhere(~known)
    cost, fixed = A[~known], np.where(known, m, 0.0)
    sums = np.zeros((2 * n, len(unknown)))
    sums[unknown[:, 0], np.arange(len(unknown))] = 1
    sums[n + unknown[:, 1], np.arange(len(unknown))] = 1
    offset = np.concatenate([fixed.sum(1), fixed.sum(0)])
    if low == high:  # rows and columns have one total: an equation too many
        sums, offset = sums[:-1], offset[:-1]
    found = minimize(
        lambda x: x @ cost / nu + (x * np.log(x / reference) - x).sum(),
        np.full(len(unknown), 0.5),
        jac=lambda x: cost / nu + np.log(x / reference),
        constraints=[LinearConstraint(sums, low - offset, high - offset)],
        bounds=Bounds(1e-12, np.inf),
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 3000},
    )
    M = fixed.copy()
    M[~known] = found.x
    return M
