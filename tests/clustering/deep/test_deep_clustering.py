"""Labels of deep clustering and of K-means on eigenvectors: against all partitions of a few points; when K-means is
repeated, and which points batches then have."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.deep.xsdc.assignments import deep_labels, eigenvector_labels
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


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), clusters=st.integers(1, 9), points=st.integers(4, 12))
def test_the_eigengap_is_that_of_the_dense_matrix(seed: int, clusters: int, points: int) -> None:
    """Also where the features span less than K dimensions, and with fewer points than clusters."""
    features = draw(seed, points, 5)
    for penalty in (0.5, 1e-3):
        values = np.linalg.eigvalsh(xsdc_dense.dissimilarity(features.numpy(), penalty))
        gap = values[clusters] - values[clusters - 1] if points > clusters else 0.0
        assert eigengap(features, penalty, clusters) == pytest.approx(gap, abs=1e-12)
