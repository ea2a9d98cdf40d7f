"""What several oracles have in common, one point at a time: softmax over classes, unit rows, class means, graphs."""

import functools

import numpy as np
import scipy.special
from numpy.typing import NDArray

Array = NDArray[np.float64]

softmax = functools.partial(scipy.special.softmax, axis=-1)


def unit(x: Array) -> Array:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def class_means(support: Array, labels: list[int], way: int) -> Array:
    return np.array([np.mean([s for s, y in zip(support, labels, strict=True) if y == k], axis=0) for k in range(way)])


def squared_distances(x: Array, prototypes: Array) -> Array:
    return np.array([[((p - m) ** 2).sum() for m in prototypes] for p in x])


def graph(x: Array, n_neighbors: int, symmetry: str = "average") -> Array:
    """Weights of the arcs from each point to its nearest others, ties to the lowest index."""
    n, W = len(x), np.zeros((len(x), len(x)))
    for p in range(n):
        others = sorted((q for q in range(n) if q != p), key=lambda q: (((x[p] - x[q]) ** 2).sum(), q))
        W[p, others[:n_neighbors]] = 1
    return {
        "directed": W,
        "average": (W + W.T) / 2,
        "union": np.maximum(W, W.T),
        "mutual": np.minimum(W, W.T),
    }[symmetry]
