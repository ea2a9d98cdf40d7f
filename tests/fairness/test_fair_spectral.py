"""Fair spectral clustering: the vectors of the paper's dense matrices, and graphs that fall apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from clustering.foundation.errors import InputError
from fairness.groups import groups_of
from fairness.optimiser.fair_spectrum import fair_embedding
from fairness.rivals import Kleindessner
from tests.oracles.fair_spectral_dense import fair_vectors


@settings(max_examples=8)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 4), st.sampled_from([30, 230]))
def test_the_vectors_are_those_of_the_dense_form(seed, J, K, N):
    rng = np.random.default_rng(seed)
    W = rng.random((N, N)) * (rng.random((N, N)) < 0.5)
    W = np.triu(W, 1) + np.triu(W, 1).T
    sensitive = np.r_[np.arange(J), rng.integers(0, J, N - J)]
    groups = groups_of(sensitive, N)
    found, _ = fair_embedding(csr_array(W), groups, K, np.random.default_rng(0))
    F = groups.membership[groups.cells]
    np.testing.assert_allclose((F - F.mean(axis=0)).T @ found, 0, atol=1e-8)
    root = np.sqrt(W.sum(axis=1))[:, None]
    ours, dense = root * found, root * fair_vectors(W, F, K)
    M = W / root / root.T
    np.testing.assert_allclose(ours.T @ ours, np.eye(K), atol=1e-6)
    # Vectors are determined up to the eigenvalues: so values are compared, and the space where the next is apart.
    np.testing.assert_allclose(
        np.linalg.eigvalsh(ours.T @ M @ ours), np.linalg.eigvalsh(dense.T @ M @ dense), atol=1e-6
    )
    next_ = root * fair_vectors(W, F, K + 1)
    values = np.linalg.eigvalsh(next_.T @ M @ next_)
    if values[1] - values[0] > 1e-3:
        np.testing.assert_allclose(ours @ ours.T, dense @ dense.T, atol=1e-4)


def test_components_that_can_be_joined_in_many_fair_ways_are_warned_of():
    """Four pairs of points of either group, all apart."""
    W = np.kron(np.eye(4), np.ones((2, 2)) - np.eye(2))
    X = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.warns(UserWarning, match="components"):
        model = Kleindessner(2, random_state=0).fit(X, sensitive_features=[0, 1] * 4, graph=csr_array(W))
    assert (model.objective_, model.fairness_error_) == (0, 0)


def test_points_without_arcs_are_labelled_as_the_nearest_with_some():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [10.4]])
    W = np.zeros((7, 7))
    W[:3, :3] = W[3:6, 3:6] = 1
    W[2, 3] = W[3, 2] = 0.1
    np.fill_diagonal(W, 0)
    model = Kleindessner(2, random_state=0).fit(X, sensitive_features=[0, 1, 0, 1, 0, 1, 0], graph=csr_array(W))
    assert model.labels_[6] == model.labels_[3]
    assert (model.embedding_[6] == 0).all()
    with pytest.raises(InputError, match=r"0 points .*2 clusters"):
        Kleindessner(2).fit(X, graph=csr_array(np.zeros((7, 7))))
