"""Clustering of support and queries one task, one point, one class at a time. Shares no line with what it judges."""

import numpy as np
from numpy.typing import NDArray

from tests.oracles.parts import class_means, softmax
from tests.oracles.parts import graph as graph_of

Array = NDArray[np.float64]


def cluster(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    kind: str,
    weight: float = 0.0,
    n_neighbors: int = 3,
    graph: str = "average",
    sigma_rule: str = "mean",
    shift: bool = True,
    beta: float = 1.0,
    members: str = "hard",
    clamp: str = "always",
    first: str = "assignments",
    warm_start: bool = True,
    outer: int,
    sweeps: int,
) -> Array:
    """Assignments (Q, K) after a fixed number of outer steps, each of a fixed number of unguarded sweeps.

    `kind` is means, modes or points (by-product modes).
    """
    if shift:
        query = query + (support.mean(0) - query.mean(0))
    x = np.concatenate([support, query])
    n, s = len(x), len(support)
    arcs, W = (graph_of(x, n_neighbors, symmetry) for symmetry in ("directed", graph))
    squares = [((x[p] - x[q]) ** 2).sum() for p in range(n) for q in range(n) if arcs[p, q]]
    variance = sum(squares) / (5 * n) if sigma_rule == "published" else np.mean(squares) if squares else 0.0

    def kernel(a: Array, b: Array) -> float:
        return float(np.exp(-((a - b) ** 2).sum() / (2 * variance)))

    def cost(prototypes: list[Array]) -> Array:
        a = np.zeros((n, way))
        for p in range(n):
            for k in range(way):
                distance = ((x[p] - prototypes[k]) ** 2).sum()
                a[p, k] = beta * (distance if kind == "means" else -kernel(x[p], prototypes[k]))
        return a

    def shifted(modes: list[Array], z: Array) -> list[Array]:
        """All modes together, until none of them moves by more than 1e-5 of the longest one of the start."""
        longest = max(np.linalg.norm(m) for m in modes)
        for _ in range(1000):
            after = []
            for k in range(way):
                w = [z[p, k] * kernel(x[p], modes[k]) for p in range(n)]
                after.append(np.asarray(sum(w[p] * x[p] for p in range(n)) / sum(w)))
            step = max(np.linalg.norm(new - old) for new, old in zip(after, modes, strict=True))
            modes = after
            if step <= 1e-5 * longest:
                break
        return modes

    def moved(prototypes: list[Array], z: Array, logits: Array | None) -> list[Array]:
        if kind == "modes":
            return shifted(prototypes, z)
        new = []
        for k in range(way):
            if kind == "means":
                new.append(sum(z[p, k] * x[p] for p in range(n)) / z[:, k].sum())
            else:
                inside = [p for p in range(n) if z[p, k] == z[p].max()]
                if logits is None:
                    scores = [sum(z[q, k] * kernel(x[q], x[p]) for q in range(n)) for p in inside]
                else:
                    scores = [
                        logits[p, k] - np.logaddexp.reduce([logits[p, j] for j in range(way) if j != k] or [-np.inf])
                        for p in inside
                    ]
                new.append(x[inside[int(np.argmax(scores))]])
        return new

    known = np.eye(way)[labels]
    prototypes = list(class_means(support, labels, way))
    if first == "prototypes":
        nearest = np.eye(way)[cost(prototypes).argmin(1)]
        nearest[:s] = known
        prototypes = moved(prototypes, nearest, None)
    S = np.zeros((n, way))
    for step in range(outer):
        a = cost(prototypes)
        if weight == 0 or step == 0 or not warm_start:
            S = softmax(-a)
            if weight > 0 or clamp == "always":
                S[:s] = known
        for _ in range(sweeps if weight > 0 else 0):
            S = softmax(-a + weight * W @ S)
            if clamp == "always":
                S[:s] = known
        z = S if members == "soft" else np.eye(way)[S.argmax(1)]
        if (z.sum(0) == 0).any():
            raise ValueError("a class is empty")
        prototypes = moved(prototypes, z, -a + weight * W @ S)
    return S[s:]
