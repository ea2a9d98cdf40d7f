"""Seeded K-means: an oracle in loops, labels that stay, three similarities, and input that cannot be."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering import SeededKMeans
from clustering.foundation.errors import InputError

METRICS = ("linear", "inverse_covariance", "gaussian")


def blobs(seed: int = 0, points: int = 90, spread: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    classes = np.arange(points) % 3
    return 4 * np.eye(3, 5)[classes] + spread * generator.normal(size=(points, 5)), classes


def similarity(X: NDArray[np.float64], metric: str) -> NDArray[np.float64]:
    """(N, N) as the definition has it."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    if metric == "linear":
        return np.asarray(Z @ Z.T)
    if metric == "inverse_covariance":
        C = Z.T @ Z / (len(Z) - 1)
        return np.asarray(Z @ np.linalg.inv(C + np.linalg.eigvalsh(C)[-1] / np.trace(C) * np.eye(len(C))) @ Z.T)
    squared = ((Z[:, None] - Z) ** 2).sum(axis=2)
    return np.asarray(np.exp(-squared / (4 * np.median(squared[np.triu_indices(len(Z), 1)]))))


def by_similarities(S: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Kernel K-means from the labelled points of every cluster, which stay; a point's squared distance to the mean of a
    cluster is written with similarities alone."""
    clusters, found = int(labels.max()) + 1, labels.copy()
    for _ in range(100):
        distances = np.empty((len(S), clusters))
        for k in range(clusters):
            members = np.flatnonzero(found == k)
            for p in range(len(S)):
                distances[p, k] = S[p, p] - 2 * S[p, members].mean() + S[np.ix_(members, members)].mean()
        after = np.where(labels >= 0, labels, distances.argmin(axis=1))
        if (after == found).all():
            break
        found = after
    return found


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), labelled=st.integers(3, 12))
def test_it_is_k_means_by_similarities_alone(metric: Any, seed: int, labelled: int) -> None:
    X, classes = blobs(seed, 30, spread=2.5)
    labels = np.where(np.arange(30) < labelled, classes, -1)
    model = SeededKMeans(3, metric=metric, random_state=0).fit(X, partial_labels=labels)
    np.testing.assert_array_equal(model.labels_, by_similarities(similarity(X, metric), labels))


@pytest.mark.parametrize("metric", METRICS)
def test_labels_stay_and_name_the_clusters(metric: Any) -> None:
    X, classes = blobs(spread=1.5)
    wrong = np.full(90, -1)
    wrong[:9] = classes[:9]
    wrong[30] = (classes[30] + 1) % 3
    model = SeededKMeans(3, metric=metric, random_state=0).fit(X, partial_labels=wrong)
    assert model.labels_[30] == wrong[30]
    assert (model.labels_ == classes).mean() > 0.9
    fresh, truth = blobs(1)
    assert (model.predict(fresh) == truth).mean() > 0.95


@pytest.mark.parametrize(
    ("settings_", "given_", "said"),
    [
        ({"metric": "cosine"}, {}, "metric"),
        ({"landmarks": 0}, {}, "landmarks"),
        ({}, {"partial_labels": np.full(90, 3)}, r"partial_labels .*0\.\.2"),
        ({"n_clusters": 91}, {}, "n_samples=90 .*n_clusters=91"),
    ],
)
def test_what_cannot_be_is_named(settings_: dict[str, Any], given_: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        SeededKMeans(**{"n_clusters": 3, **settings_}).fit(blobs()[0], **given_)
