"""Metrics: tables counted by hand, all pairings tried, identities between objectives, degenerate cases."""

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from clustering import metrics
from clustering.foundation.errors import InputError

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=12)


def best_pairing(truth: list[int], labels: list[int]) -> float:
    """Accuracy under every one-to-one naming of clusters by classes, clusters beyond the classes by none."""
    clusters, classes = sorted(set(labels)), sorted(set(truth))
    names = [*classes, *range(100, 100 + max(0, len(clusters) - len(classes)))]
    return max(
        sum(dict(zip(clusters, chosen, strict=True))[cluster] == y for y, cluster in zip(truth, labels, strict=True))
        for chosen in itertools.permutations(names, len(clusters))
    ) / len(truth)


def entropies(truth: list[int], labels: list[int]) -> tuple[float, float, float]:
    """H(Y), H(L) and I(Y; L) by their definitions."""

    def entropy(values: list[Any]) -> float:
        return -sum(values.count(v) / len(values) * math.log(values.count(v) / len(values)) for v in set(values))

    both = entropy(list(zip(truth, labels, strict=True)))
    return entropy(truth), entropy(labels), entropy(truth) + entropy(labels) - both


@settings(deadline=None, max_examples=30)
@given(pairs=LABELS)
def test_against_definitions(pairs: list[tuple[int, int]]) -> None:
    truth, labels = [y for y, _ in pairs], [label for _, label in pairs]
    assert metrics.accuracy(truth, labels) == pytest.approx(best_pairing(truth, labels))
    one, other, mutual = entropies(truth, labels)
    if one > 0 and other > 0:
        assert metrics.nmi(truth, labels) == pytest.approx(mutual / math.sqrt(one * other), abs=1e-9)
        arithmetic = metrics.nmi(truth, labels, average="arithmetic")
        assert arithmetic == pytest.approx(2 * mutual / (one + other), abs=1e-9)
    else:
        assert metrics.nmi(truth, labels) == metrics.nmi(truth, labels, average="arithmetic") == (one == other)


def graph(seed: int, points: int = 9) -> NDArray[np.float64]:
    W = np.random.default_rng(seed).random((points, points)) * (
        np.random.default_rng(seed + 1).random((points,) * 2) < 0.5
    )
    W = W + W.T
    W[0] = W[:, 0] = 0  # a point without arcs
    return W


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), labels=st.lists(st.integers(0, 3), min_size=9, max_size=9))
def test_graph_objectives_by_their_definitions(seed: int, labels: list[int]) -> None:
    W = graph(seed) + np.diag(np.random.default_rng(seed).random(9)) * (seed % 2)
    found = metrics.graph_objectives(labels, sparse.csr_array(W))
    expected = dict.fromkeys(found._fields, 0.0)
    d, other_way = W.sum(axis=1), 0.0
    for k in set(labels):
        S = (np.array(labels) == k).astype(float)
        inside, cut = S @ W @ S, S @ W @ (1 - S)
        expected["average_association"] -= inside / S.sum()
        if d @ S:
            expected["normalised_cut"] += cut / (d @ S)
            other_way += 1 - inside / (d @ S)
    assert found._asdict() == pytest.approx(expected)
    assert found.normalised_cut == pytest.approx(other_way)  # K - sum of assoc(k, k) / assoc(k, all)
    assert found == pytest.approx(metrics.graph_objectives(labels, W))


def test_labels_that_cannot_be() -> None:
    with pytest.raises(InputError, match=r"3 .*2"):
        metrics.accuracy([0, 1, 2], [0, 1])
    with pytest.raises(InputError, match="1-d array"):
        metrics.nmi([[0], [1]], [0, 1])
    with pytest.raises(InputError, match="1-d array"):
        metrics.ari([], [])
    with pytest.raises(InputError, match=r"W .*\(9, 9\)"):
        metrics.graph_objectives([0, 1], graph(0))


def test_silhouette_by_its_definition_and_of_a_sample() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    labels = np.arange(30) % 3
    X += 5 * np.eye(3)[labels]
    far = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    found = []
    for p in range(30):
        own = far[p][(labels == labels[p]) & (np.arange(30) != p)].mean()
        other = min(far[p][labels == k].mean() for k in range(3) if k != labels[p])
        found.append((other - own) / max(own, other))
    assert metrics.silhouette(X, labels) == pytest.approx(np.mean(found))
    assert metrics.silhouette(pd.DataFrame(X), labels) == pytest.approx(np.mean(found))
    assert metrics.silhouette(sparse.csr_array(X), labels) == pytest.approx(np.mean(found))
    assert metrics.silhouette(X, labels, sample=20, seed=1) == metrics.silhouette(X, labels, sample=20, seed=1)
    assert metrics.silhouette(X, labels, sample=20) == pytest.approx(np.mean(found), abs=0.1)
    assert math.isnan(metrics.silhouette(X, np.zeros(30)))
    assert math.isnan(metrics.silhouette(X, np.arange(30)))
    with pytest.raises(InputError, match=r"30 rows.*29"):
        metrics.silhouette(X, labels[1:])


def test_many_classes_take_little_memory() -> None:
    labels = np.arange(20_000)
    tracemalloc.start()
    assert metrics.accuracy(labels, labels[::-1]) == 1
    assert metrics.accuracy(labels, labels // 2) == 0.5
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()
