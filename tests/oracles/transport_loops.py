"""Optimal transport to classes, entry by entry. Shares no line with what it judges."""

import math


def sinkhorn(scores: list[list[float]], rows: list[float], columns: list[float], rounds: int) -> list[list[float]]:
    """Plan after a number of rounds, rows and then columns, rows once more at the end; in double logarithms."""
    n, k = len(rows), len(columns)
    f, g = [0.0] * n, [0.0] * k
    for step in range(2 * rounds + 1):
        if step % 2 == 0:
            for i in range(n):
                f[i] = math.log(rows[i]) - log_sum([scores[i][j] + g[j] for j in range(k)])
        else:
            for j in range(k):
                g[j] = math.log(columns[j]) - log_sum([scores[i][j] + f[i] for i in range(n)])
    return [[math.exp(scores[i][j] + f[i] + g[j]) for j in range(k)] for i in range(n)]


def log_sum(values: list[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))
