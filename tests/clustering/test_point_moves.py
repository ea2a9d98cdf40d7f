"""Cuts and associations that no move of a point lowers, by loops, and beside scikit-learn's spectral clustering."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import SpectralClustering

from clustering import KernelKMeans, Ncut
from clustering.graphs.neighbours import neighbours
from clustering.graphs.point_moves import single_moves
from clustering.graphs.row_graph import given_graph, scipy_graph
from clustering.metrics import graph_objectives


def by_loops(A: NDArray[np.float64], weights: NDArray[np.float64], labels: NDArray[np.int64], K: int) -> float:
    """-sum_k S_k^T A S_k / w^T S_k."""
    objective = 0.0
    for k in range(K):
        members = [p for p in range(len(labels)) if labels[p] == k]
        mass = sum(weights[p] for p in members)
        objective -= sum(A[p, q] for p in members for q in members) / mass if members else 0.0
    return objective


def kernel(seed: int, points: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    A = generator.random((points, points)) * (generator.random((points, points)) < 0.3)
    return A + A.T


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000), K=st.integers(1, 4), constant=st.sampled_from([0.0, 0.05]), unit=st.booleans())
def test_no_move_of_a_point_lowers_the_objective_further(seed: int, K: int, constant: float, unit: bool) -> None:
    points = 12
    A = kernel(seed, points)
    whole = A + constant
    weights = np.ones(points) if unit else whole.sum(axis=1) + 0.1
    first = np.random.default_rng(seed).integers(K, size=points)
    moved = single_moves(sparse.csr_array(A), weights, first, K, 100, constant=constant)
    assert moved.converged
    assert len(set(moved.labels)) == K
    objective = by_loops(whole, weights, moved.labels, K)
    if len(set(first)) == K:
        assert objective <= by_loops(whole, weights, first, K) + 1e-9
    sizes = np.bincount(moved.labels, minlength=K)
    for p in range(points):
        for k in range(K):
            if sizes[moved.labels[p]] > 1:
                other = moved.labels.copy()
                other[p] = k
                assert by_loops(whole, weights, other, K) >= objective - 1e-8


def of_scikit_learn(W: Any, K: int, assign: str) -> NDArray[np.int64]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of graphs in parts
        model = SpectralClustering(K, affinity="precomputed", assign_labels=assign, random_state=0)
        return np.asarray(model.fit_predict(W))


@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 10_000),
    K=st.integers(2, 6),
    k=st.integers(3, 8),
    symmetry=st.sampled_from(["average", "union"]),
    assign=st.sampled_from(["kmeans", "cluster_qr"]),
)
def test_labels_of_scikit_learn_are_no_better(seed: int, K: int, k: int, symmetry: Any, assign: str) -> None:
    X = np.random.default_rng(seed).normal(size=(50, 2))
    W = scipy_graph(given_graph(neighbours(torch.from_numpy(X), k, symmetry=symmetry), 50))
    other = of_scikit_learn(W, K, assign)
    assume(len(set(other)) == K)
    expected = graph_objectives(other, W)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*components")
        assert Ncut(K, random_state=seed).fit(X, graph=W).objective_ <= expected.normalised_cut + 1e-9
    assert KernelKMeans(K, random_state=seed).fit(X, graph=W).objective_ <= expected.average_association + 1e-9


def test_where_the_cut_says_nothing_kernel_k_means_begins_at_seeds() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.warns(UserWarning, match="negative"):
        model = KernelKMeans(2, random_state=0).fit(X, graph=-np.ones((20, 20)))
    assert len(model.start_objectives_) == 8
    few = np.zeros((20, 20))
    few[0, 1] = few[1, 0] = 1.0
    assert KernelKMeans(3, random_state=0).fit(X, graph=few).n_empty_ == 0
