"""Few-shot inference one task, one query, one class at a time. Shares no line with what it judges."""

import numpy as np
from numpy.typing import NDArray

from tests.oracles.parts import class_means, softmax, squared_distances
from tests.oracles.parts import graph as graph_of

Array = NDArray[np.float64]


def transform(x: Array, name: str, base_mean: Array | None) -> Array:
    if name == "UN":
        return x
    if name == "CL2N":
        assert base_mean is not None
        x = x - base_mean
    if name == "PT":
        x = np.array([[np.sqrt(value + 1e-6) for value in row] for row in x])
    return np.array([row / max(np.linalg.norm(row), 1e-12) for row in x])


def laplacianshot(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    weight: float,
    n_neighbors: int,
    graph: str,
    shift: bool,
    rectify: bool,
    temperature: float,
    variant: str,
    iterations: int,
) -> Array:
    """Assignments (Q, K) after a fixed number of unguarded updates."""
    original, published = query, variant != "corrected"
    if shift:
        query = query + (support.mean(0) - query.mean(0))
    prototypes = class_means(support, labels, way)
    if rectify:
        everything = list(support) + list(query)
        sums = [np.zeros(support.shape[1]) for _ in range(way)]
        mass, members = [0.0] * way, [0] * way
        for index, x in enumerate(everything):
            cosines = np.array([x @ m / (np.linalg.norm(x) * np.linalg.norm(m)) for m in prototypes])
            joined = int(np.argmax(cosines))
            if index < len(support) and not published:
                joined = labels[index]
            share = np.exp(temperature * cosines)
            share = share[joined] / share.sum()
            sums[joined] = sums[joined] + share * x
            mass[joined] += share
            members[joined] += 1
        for k in range(way):
            if members[k] == 0:
                continue
            scale = members[k] if published else mass[k]
            prototypes[k] = sums[k] / scale
    if variant == "alpha_tim":
        query = original
    cost, W = squared_distances(query, prototypes), graph_of(query, n_neighbors, graph)
    Y = softmax(-cost)
    for _ in range(iterations):
        Y = softmax(-cost + weight * W @ Y)
    return Y
