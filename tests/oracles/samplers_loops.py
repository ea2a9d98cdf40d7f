"""Samplers one task and one class at a time, from the same random numbers."""

import math

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.streams import stream

Drawn = tuple[list[list[int]], list[list[int]], list[int]]
"""Support samples and query samples of each position 0..way-1, and the classes, of one task."""


def lowest(keys: NDArray[np.float64], size: int) -> list[int]:
    return sorted(range(len(keys)), key=lambda i: keys[i])[:size]


def shuffled(
    random: np.random.Generator, members: list[NDArray[np.int64]], classes: list[list[int]], sizes: NDArray[np.int64]
) -> list[list[list[int]]]:
    """Samples of each class of each task: a subset by Floyd's algorithm, in the order of random keys."""
    sets = floyd(random, np.array([[len(members[k]) for k in row] for row in classes]), sizes)
    keys = random.random((*sizes.shape, int(sizes.max())))
    tasks = []
    for t, row in enumerate(classes):
        rows = [sets[t * len(row) + c] for c in range(len(row))]
        order = [lowest(keys[t, c, : len(rows[c])], 10**9) for c in range(len(row))]
        tasks.append([[int(members[k][rows[c][i]]) for i in order[c]] for c, k in enumerate(row)])
    return tasks


def balanced(labels: NDArray[np.int64], seed: int, way: int, shot: int, query: int, block: int) -> list[Drawn]:
    members = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
    random = stream(seed, "tasks", way, shot, query, 0)
    classes = [lowest(keys, way) for keys in random.random((block, len(members)))]
    drawn = shuffled(random, members, classes, np.full((block, way), shot + query))
    return [
        ([row[:shot] for row in rows], [row[shot:] for row in rows], chosen)
        for rows, chosen in zip(drawn, classes, strict=True)
    ]


def dirichlet(
    labels: NDArray[np.int64], seed: int, way: int, shot: int, query: int, concentration: float, block: int
) -> list[Drawn]:
    members = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
    random = stream(seed, "dirichlet tasks", way, shot, query, repr(concentration), 0)
    classes = [lowest(keys, way) for keys in random.random((block, len(members)))]
    proportions = random.dirichlet([concentration] * way, block)
    counts = [
        apportion(list(proportions[t]), way * query, [len(members[k]) - shot for k in row])
        for t, row in enumerate(classes)
    ]
    drawn = shuffled(random, members, classes, np.array(counts) + shot)
    return [
        ([row[:shot] for row in rows], [row[shot:] for row in rows], chosen)
        for rows, chosen in zip(drawn, classes, strict=True)
    ]


def apportion(proportions: list[float], total: int, capacity: list[int]) -> list[int]:
    """One row: hand out by largest remainders; what the full cannot take goes round again among the others."""
    counts = [0] * len(proportions)
    while sum(counts) < total:
        rest = total - sum(counts)
        room = [k for k in range(len(counts)) if counts[k] < capacity[k]]
        shares = {k: proportions[k] for k in room}
        if sum(shares.values()) == 0:
            shares = dict.fromkeys(room, 1.0)
        exact = {k: rest * (shares[k] / float(np.sum(list(shares.values())))) for k in room}
        given = {k: math.floor(exact[k]) for k in room}
        for k in sorted(room, key=lambda k: given[k] - exact[k])[: rest - sum(given.values())]:
            given[k] += 1
        for k in room:
            counts[k] = min(capacity[k], counts[k] + given[k])
    return counts


def floyd(random: np.random.Generator, counts: NDArray[np.int64], sizes: int | NDArray[np.int64]) -> list[list[int]]:
    """A subset below each count: Floyd's algorithm, as it is printed."""
    sizes = np.broadcast_to(sizes, counts.shape)
    lasts = [np.minimum(counts - sizes + i, counts - 1) for i in range(int(sizes.max()))]
    picks = [random.integers(0, last, endpoint=True) for last in lasts]
    sets: list[list[int]] = []
    for row, (count, size) in enumerate(zip(counts.flatten(), sizes.flatten(), strict=True)):
        found: list[int] = []
        for i in range(size):
            pick = int(picks[i].flatten()[row])
            found.append(pick if pick not in found else int(count) - int(size) + i)
        sets.append(found)
    return sets


def few_classes(
    labels: NDArray[np.int64], seed: int, way: int, shot: int, queries: int, effective: int, block: int
) -> list[Drawn]:
    members = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
    random = stream(seed, "few classes tasks", way, shot, queries, effective, 0)
    class_keys = random.random((block, len(members)))
    classes = [lowest(keys, way) for keys in class_keys]
    places = floyd(random, np.array([[len(members[k]) for k in row] for row in classes]), shot)
    chosen = [lowest(keys, effective) for keys in random.random((block, way))]
    support = [
        [[int(members[k][place]) for place in places[t * way + c]] for c, k in enumerate(row)]
        for t, row in enumerate(classes)
    ]
    left = [
        [(int(sample), c) for c in chosen[t] for sample in members[classes[t][c]] if sample not in support[t][c]]
        for t in range(block)
    ]
    ranks = floyd(random, np.array([len(row) for row in left]), queries)
    tasks = []
    for t in range(block):
        drawn = [left[t][rank] for rank in ranks[t]]
        tasks.append((support[t], [[sample for sample, k in drawn if k == c] for c in range(way)], classes[t]))
    return tasks


def whole_split(labels: list[int], share: float) -> dict[int, int]:
    """Support samples of each class."""
    return {k: max(1, math.floor(round(labels.count(k) * share, 9))) for k in set(labels)}
