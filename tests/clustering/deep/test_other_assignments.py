"""What balancing is compared with: against the dense eigenproblem, and planted clusters."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.constraints import constraints
from clustering.deep.xsdc.assignments import by_eigenvectors
from clustering.deep.xsdc.discriminative import dissimilarity
from tests.oracles import xsdc_dense as oracle


def draw(seed: int, points: int = 20, dimension: int = 5) -> tuple[torch.Tensor, np.ndarray]:
    generator = np.random.default_rng(seed)
    classes = np.arange(points) % 3
    return torch.from_numpy(5 * np.eye(3, dimension)[classes] + generator.normal(size=(points, dimension))), classes


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), clusters=st.integers(1, 5))
def test_eigenvectors_are_those_of_the_dissimilarities(seed: int, clusters: int) -> None:
    """The relaxation's value is that of the dense solution, whatever the penalty, and its constraints hold."""
    features, _ = draw(seed)
    nothing = constraints(20).among(np.arange(20))
    nothing.mask.fill_(False)
    M = by_eigenvectors(features, nothing, clusters)
    least = min(0.1, 1 / clusters) * 20
    for penalty in (0.5, 0.05):
        values, vectors = np.linalg.eigh(oracle.dissimilarity(features.numpy(), penalty))
        weights = np.r_[20 - (clusters - 1) * least, np.full(clusters - 1, least)]
        dense = (vectors[:, :clusters] * weights) @ vectors[:, :clusters].T
        np.testing.assert_allclose(M, dense, atol=1e-8)
        value = float((dissimilarity(features, penalty) * M).sum())
        assert value == pytest.approx(values[:clusters] @ weights, abs=1e-9)
    spectrum = torch.linalg.eigvalsh(M)
    assert float(spectrum.min()) > -1e-9
    assert float(M.trace()) == pytest.approx(20)
    assert float((spectrum / least).clamp(0, 1).sum()) == pytest.approx(clusters, abs=1e-6)
