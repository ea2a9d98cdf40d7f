"""BAVARDAGE without its scaling by the base classes, one task and one point at a time, projection included. Shares no
line with what it judges."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from tests.oracles.parts import class_means, softmax, squared_distances

Array = NDArray[np.float64]


def bavardage(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    beta: float,
    prior: float,
    concentration: float,
    rounds: int,
    start_beta: float,
    start_rounds: int,
) -> Array:
    """Probabilities (Q, K)."""
    known = np.eye(way)[labels]
    x = np.concatenate([support, query])
    means = class_means(support, labels, way)
    for _ in range(start_rounds):
        y = softmax(-start_beta / 2 * squared_distances(query, means))
        z = np.concatenate([known, y])
        means = np.array([sum(z[i, k] * x[i] for i in range(len(x))) / z[:, k].sum() for k in range(way)])
    for _ in range(rounds):
        z = np.concatenate([known, y])
        sizes = z.sum(0)
        means = np.array([sum(z[i, k] * x[i] for i in range(len(x))) / (prior + sizes[k]) for k in range(way)])
        axes = np.linalg.qr((means[1:] - means[0]).T)[0]  # the directions in which the classes differ
        posterior = concentration + y.sum(0)
        scores = np.zeros((len(query), way))
        for i, q in enumerate(query):
            for k in range(way):
                distance = ((q @ axes - means[k] @ axes) ** 2).sum()
                scores[i, k] = digamma(posterior[k]) - digamma(posterior.sum())
                scores[i, k] -= beta / 2 * distance + (way - 1) / (2 * (prior + sizes[k]))
        y = softmax(scores)
    return y
