"""LK: the projection and the convex problem against brute force, its invariants, and input that cannot be."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import make_blobs

from clustering import LaplacianKModes
from clustering.foundation.errors import InputError
from clustering.graphs.row_graph import given_graph, scipy_graph
from clustering.graphs.smoothing import Smoothness, smoothed
from clustering.optimiser.simplex import project


def blobs() -> tuple[Any, Any]:
    return make_blobs(90, centers=10 * np.eye(3, 4), cluster_std=1.0, random_state=0)[:2]


def weights(seed: int, points: int) -> Any:
    """Symmetric and >= 0, some points without arcs."""
    upper = np.triu(np.random.default_rng(seed).exponential(size=(points, points)), 1)
    upper *= np.random.default_rng(seed + 1).random((points, points)) < 0.4
    return upper + upper.T


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), K=st.integers(1, 7), scale=st.sampled_from([1e-3, 1.0, 1e3, 1e9]))
def test_projection_against_all_faces_of_the_simplex(seed: int, K: int, scale: float) -> None:
    values = np.random.default_rng(seed).normal(size=K) * scale
    values[K // 2 :: 3] = values[0]  # ties
    best, nearest = np.inf, np.zeros(K)
    for face in itertools.product((False, True), repeat=K):
        inside = np.array(face)
        if inside.any():
            point = np.where(inside, values - (values[inside].sum() - 1) / inside.sum(), 0.0)
            distance = float(((point - values) ** 2).sum())
            if point.min() >= -1e-12 * max(1, scale) and distance < best:
                best, nearest = distance, point
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-6)):
        shifted = torch.from_numpy(values).to(dtype)
        found = project(shifted[None, :, None].expand(2, -1, 3))[1, :, 2].double().numpy()
        np.testing.assert_allclose(found.sum(), 1, atol=tolerance)
        assert (found >= 0).all()
        if dtype == torch.float64:
            np.testing.assert_allclose(found, nearest, atol=tolerance * max(1, scale))


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000), weight=st.sampled_from([0.01, 0.5, 20.0]))
def test_assignments_against_a_general_solver(seed: int, weight: float) -> None:
    points, K = 6, 2
    W, cost = weights(seed, points), np.random.default_rng(seed + 2).uniform(-1, 0, size=(K, points))
    L = np.diag(W.sum(axis=1)) - W

    def objective(first: Any) -> float:
        S = np.stack([first, 1 - first])
        return float((cost * S).sum() + weight * np.einsum("kn,nm,km->", S, L, S))

    solved = min(
        minimize(objective, start, bounds=[(0, 1)] * points, method="L-BFGS-B", options={"ftol": 1e-15}).fun
        for start in (np.full(points, 0.5), cost[0] < cost[1])
    )
    smoothness = Smoothness(given_graph(W, points), weight)
    start = torch.full((1, K, points), 0.5, dtype=torch.float64)
    found = smoothed(torch.from_numpy(cost)[None], smoothness, start, max_iterations=20_000, tolerance=1e-9)
    S = found.assignments[0].numpy()
    np.testing.assert_allclose(float(found.objective), objective(S[0]), rtol=1e-9)
    assert abs(float(found.objective) - solved) < 1e-6
    assert float(found.objective) - solved <= float(found.gap) + 1e-9  # the gap bounds the distance to the minimum


@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 10_000), weight=st.floats(0.01, 20), k=st.integers(1, 40))
def test_the_objective_never_rises(seed: int, weight: float, k: int) -> None:
    X = np.random.default_rng(seed).normal(size=(30, 3))
    X[15::3], X[:, 2] = X[0], 1.0  # duplicates and a constant column
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*clusters have no points")
        model = LaplacianKModes(4, weight=weight, n_neighbors=k, n_init=2, random_state=seed, tol=1e-6).fit(X)
    trace = model.objective_trace_
    assert (np.diff(trace) <= 1e-9 * np.abs(trace).max()).all()
    S, L = model.assignments_, scipy_graph(model.graph_).toarray()
    L = np.diag(L.sum(axis=1)) - L
    kernel = np.exp(-((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2) / (2 * model.bandwidth_**2))
    expected = weight * np.trace(S.T @ L @ S) - (S * kernel).sum()
    np.testing.assert_allclose(model.relaxed_objective_, expected, rtol=1e-6, atol=1e-9)
    hot = np.eye(4)[model.labels_]
    np.testing.assert_allclose(model.objective_, weight * np.trace(hot.T @ L @ hot) - (hot * kernel).sum(), rtol=1e-6)
    np.testing.assert_allclose(S.sum(axis=1), 1)
    np.testing.assert_array_equal(model.labels_, S.argmax(axis=1))


def test_data_that_cannot_be() -> None:
    X, _ = blobs()
    with pytest.warns(UserWarning, match="negative"), pytest.raises(InputError, match="not convex"):
        LaplacianKModes(2).fit(X[:3], graph=-np.ones((3, 3)))
    with pytest.raises(InputError, match="weight"):
        LaplacianKModes(3, weight=-1.0).fit(X)
    with pytest.raises(InputError, match="graph or prototypes"):
        LaplacianKModes(3).fit(X).predict(X, by="mode")  # type: ignore[arg-type]
