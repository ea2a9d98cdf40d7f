"""Entropy clustering in loops over numbers, after the equations of Zhang and Boykov; slow and obvious."""

import math

Matrix = list[list[float]]


def em_step(p: Matrix, y: Matrix, fairness: float, prior: list[float]) -> Matrix:
    """Equations 45 and 46, with the posterior S over points and the number of points N as printed."""
    N, K = len(p), len(prior)
    S = [[y[i][k] / sum(y[j][k] for j in range(N)) for k in range(K)] for i in range(N)]
    new = []
    for i in range(N):
        below = 1 + fairness * N * sum(prior[c] * S[i][c] for c in range(K))
        new.append([(p[i][k] + fairness * N * prior[k] * S[i][k]) / below for k in range(K)])
    return new


def surrogate(p: Matrix, y: Matrix, fairness: float, prior: list[float], known: dict[int, int] | None = None) -> float:
    """Equation 42 without the norm: known rows count in the proportions alone."""
    known = known or {}
    free = [i for i in range(len(p)) if i not in known]
    misfit = sum(-p[i][k] * math.log(y[i][k]) for i in free for k in range(len(prior))) / len(free)
    ybar = [sum(row[k] for row in y) / len(y) for k in range(len(prior))]
    return misfit + fairness * sum(u * math.log(u / share) for u, share in zip(prior, ybar, strict=True))


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
