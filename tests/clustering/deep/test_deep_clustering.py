"""Labels of deep clustering and of K-means on eigenvectors: against all partitions of a few points; when K-means is
repeated, and which points batches then have."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.constraints import constraints
from clustering.deep.xsdc.assignments import DeepClustering, by_labels, deep_labels, eigenvector_labels
from clustering.deep.xsdc.discriminative import eigengap
from clustering.metrics import accuracy
from tests.oracles import xsdc_dense, xsdc_labels


def draw(seed: int, points: int = 8, dimension: int = 3, noise: float = 0.3) -> torch.Tensor:
    generator = np.random.default_rng(seed)
    return torch.from_numpy(
        3 * np.eye(3, dimension)[np.arange(points) % 3] + noise * generator.normal(size=(points, dimension))
    )


def labels_and_rows(features: torch.Tensor, clusters: int) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Both kinds of labels, and the rows on which the paper runs K-means."""
    generator, plain = np.random.default_rng(0), features.numpy()
    return [
        (eigenvector_labels(features, clusters, generator), xsdc_labels.eigenvector_rows(plain, 0.1, clusters)),
        (deep_labels(features, clusters, generator), xsdc_labels.deep_rows(plain)),
    ]


@settings(max_examples=5)
@given(seed=st.integers(0, 1000), clusters=st.integers(1, 3))
def test_labels_are_the_best_partition_of_the_rows_of_the_paper(seed: int, clusters: int) -> None:
    for found, rows in labels_and_rows(draw(seed), clusters):
        assert accuracy(xsdc_labels.best_partition(rows, clusters), found) == 1


def test_what_is_known_is_inserted_into_labels() -> None:
    labels = np.array([0, 0, 1, 1, 5])
    known = constraints(5, labels=np.array([0, 1, 0, -1, -1]), must_link=[(3, 4)]).among(np.arange(5))
    M = by_labels(labels, known)
    assert torch.equal(M[known.mask], known.values[known.mask])
    same = torch.from_numpy(labels[:, None] == labels).double()
    assert torch.equal(M[~known.mask], same[~known.mask])
    assert (~known.mask).any()


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), clusters=st.integers(1, 9), points=st.integers(4, 12))
def test_the_eigengap_is_that_of_the_dense_matrix(seed: int, clusters: int, points: int) -> None:
    """Also where the features span less than K dimensions, and with fewer points than clusters."""
    features = draw(seed, points, 5)
    for penalty in (0.5, 1e-3):
        values = np.linalg.eigvalsh(xsdc_dense.dissimilarity(features.numpy(), penalty))
        gap = values[clusters] - values[clusters - 1] if points > clusters else 0.0
        assert eigengap(features, penalty, clusters) == pytest.approx(gap, abs=1e-12)


def counted(features: torch.Tensor) -> tuple[Callable[[], torch.Tensor], list[int]]:
    calls: list[int] = []

    def give() -> torch.Tensor:
        calls.append(len(calls))
        return features

    return give, calls


def test_batches_draw_from_clusters_uniformly_and_no_point_twice() -> None:
    sizes = np.array([30, 5000, 2000])
    labels = np.repeat([0, 1, 2], sizes)
    deep = DeepClustering(3, 1, seed=0, labels=labels)
    points = np.arange(len(labels))
    shares = np.zeros(3)
    for step in range(1, 201):
        drawn = deep.drawn(points, 15, step)
        assert len(np.unique(drawn)) == 15
        shares += np.bincount(labels[drawn], minlength=3) / 15 / 200
    # The smallest one loses points to the batch, so it has a little less.
    np.testing.assert_allclose(shares, 1 / 3, atol=0.04)
    assert np.array_equal(deep.drawn(points, 15, 7), deep.drawn(points, 15, 7))
    some = points[::2]
    assert np.isin(deep.drawn(some, 100, 1), some).all()
    assert set(deep.drawn(some, len(some), 1)) == set(some)
