"""Cuts and associations that no move of a point lowers, by loops, and beside scikit-learn's spectral clustering."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from clustering.graphs.point_moves import single_moves


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
