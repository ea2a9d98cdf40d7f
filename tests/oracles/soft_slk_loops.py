"""Soft SLK, one task and one point at a time, until nothing moves; the proportions by Sinkhorn's rounds. Shares no line
with what it judges."""

import numpy as np
from numpy.typing import NDArray

from tests.oracles.parts import class_means, graph, softmax, squared_distances

Array = NDArray[np.float64]


def soft_slk(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    beta: float,
    support_weight: float,
    weight: float,
    n_neighbors: int,
    shrinkage: float,
    rounds: int,
    steps: int,
) -> Array:
    """Probabilities (Q, K), by pure bound steps."""
    x = np.concatenate([support, query])
    S = len(support)
    sharper = np.sqrt(S / way)
    W = graph(x, n_neighbors)
    y = softmax(-beta * sharper / 2 * squared_distances(query, class_means(support, labels, way)))
    known = np.eye(way)[labels]
    for _ in range(steps):
        y = softmax(-slopes(x, np.concatenate([known, y]), S, W, beta * sharper, support_weight, weight * sharper))
    if not rounds or not shrinkage:
        return y
    costs = slopes(x, np.concatenate([known, y]), S, W, beta * sharper, support_weight, 0.0)
    sure = softmax(-costs / 6.5)
    u = y.mean(0)
    deviation = way * sum((share - 1 / way) ** 2 for share in u)
    doubt = way / len(y) ** 2 * sum(p * (1 - p) for row in sure for p in row)
    room = (way / len(y)) ** 2
    s = max(1 - shrinkage * doubt / max(deviation, 1e-12), room / (room + shrinkage * doubt))
    proportions = (1 - s) / way + s * u
    for _ in range(rounds):
        plan = softmax(-slopes(x, np.concatenate([known, y]), S, W, beta * sharper, support_weight, weight * sharper))
        for _ in range(2000):
            plan = plan * (proportions * len(plan) / plan.sum(0))
            plan = plan / plan.sum(1, keepdims=True)
        y = plan
    return y


def slopes(x: Array, z: Array, S: int, W: Array, beta: float, support_weight: float, weight: float) -> Array:
    """(Q, K) how the objective rises with the queries' assignments, up to what all classes share."""
    counts = np.array([support_weight] * S + [1.0] * (len(x) - S))
    found = np.zeros((len(x) - S, z.shape[1]))
    for k in range(z.shape[1]):
        mean = sum(counts[p] * z[p, k] * x[p] for p in range(len(x))) / (counts * z[:, k]).sum()
        for q in range(S, len(x)):
            found[q - S, k] = beta / 2 * ((x[q] - mean) ** 2).sum() - weight * sum(
                W[q, p] * z[p, k] for p in range(len(x))
            )
    return found
