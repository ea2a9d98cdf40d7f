"""Entropy clustering in loops over numbers, after the equations of Zhang and Boykov; slow and obvious."""

import math

Matrix = list[list[float]]


def entropy(row: list[float]) -> float:
    return -sum(x * math.log(x) for x in row if x > 0)


def renyi(row: list[float], alpha: float) -> float:
    if alpha == math.inf:
        return -math.log(max(row))
    return entropy(row) if alpha == 1 else math.log(sum(x**alpha for x in row)) / (1 - alpha)


def paired_information(p: Matrix, q: Matrix) -> float:
    """Minus the information that the classes of two views have about each other (Ji et al. 2019)."""
    K = len(p[0])
    joint = [[0.0] * K for _ in range(K)]
    for a, b in zip(p, q, strict=True):
        for k in range(K):
            for c in range(K):
                joint[k][c] += (a[k] * b[c] + b[k] * a[c]) / (2 * len(p))
    rows = [sum(row) for row in joint]
    return -sum(joint[k][c] * math.log(joint[k][c] / (rows[k] * rows[c])) for k in range(K) for c in range(K))
