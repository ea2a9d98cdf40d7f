"""PADDLE and soft K-means, one task, one query, one class at a time. Shares no line with what it judges."""

import math

Matrix = list[list[float]]


def min_max(support: Matrix, query: Matrix) -> tuple[Matrix, Matrix]:
    """As the public code writes it: x / (max - min) - min."""
    low = [min(column) for column in zip(*query, strict=True)]
    high = [max(column) for column in zip(*query, strict=True)]
    spread = [b - a if b > a else 1.0 for a, b in zip(low, high, strict=True)]
    support, query = (
        [[v / s - a for v, s, a in zip(x, spread, low, strict=True)] for x in part] for part in (support, query)
    )
    return support, query


def distance(x: list[float], w: list[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(x, w, strict=True))


def paddle(
    support: Matrix, labels: list[int], query: Matrix, way: int, weight: float, rounds: int
) -> tuple[Matrix, list[float]]:
    """Assignments after a number of rounds, and the objective, with its prototypes minimised out, after each."""
    w = centres(support, labels, query, way, [[0.0] * way for _ in query])
    v = [0.0] * way
    objectives = []
    for _ in range(rounds):
        y = []
        for x in query:
            scores = [-0.5 * distance(x, w[k]) + weight * v[k] for k in range(way)]
            e = [math.exp(score - max(scores)) for score in scores]
            y.append([value / sum(e) for value in e])
        shares = [sum(row[k] for row in y) / len(y) for k in range(way)]
        v = [math.log(share + 1e-6) + 1 for share in shares]
        w = centres(support, labels, query, way, y)
        objectives.append(objective(support, labels, query, w, y, weight))
    return y, objectives


def centres(support: Matrix, labels: list[int], query: Matrix, way: int, y: Matrix) -> Matrix:
    result = []
    for k in range(way):
        own = [1.0 if label == k else 0.0 for label in labels] + [row[k] for row in y]
        everything = support + query
        result.append(
            [sum(z * x[d] for z, x in zip(own, everything, strict=True)) / sum(own) for d in range(len(support[0]))]
        )
    return result


def objective(support: Matrix, labels: list[int], query: Matrix, w: Matrix, y: Matrix, weight: float) -> float:
    total = sum(0.5 * distance(x, w[label]) for x, label in zip(support, labels, strict=True))
    for x, row in zip(query, y, strict=True):
        for k, share in enumerate(row):
            total += share * 0.5 * distance(x, w[k]) + (share * math.log(share) if share > 0 else 0.0)
    for k in range(len(w)):
        share = sum(row[k] for row in y) / len(y) + 1e-6
        total -= weight * len(query) * share * math.log(share)
    return total
