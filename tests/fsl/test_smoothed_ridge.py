"""Ridge regression on features smoothed over the graph."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.utils.class_weight import compute_sample_weight

from clustering.graphs.low_pass import low_pass
from clustering.graphs.sparse_graph import SparseGraph
from fsl.extra.ridge import Labels, fit
from fsl.extra.smoothed_ridge import SmoothedRidge
from fsl.transductive_classifier import TransductiveClassifier


def random_graph(generator, points, k=3):
    """A symmetric graph as arcs and as a dense matrix."""
    ends = np.stack([generator.permutation(np.delete(np.arange(points), i))[:k] for i in range(points)])
    weights = generator.uniform(0.1, 1, ends.shape)
    graph = SparseGraph.of_arcs(torch.from_numpy(ends)[None], torch.from_numpy(weights)[None], "union")
    dense = (graph @ torch.eye(points, dtype=torch.float64)[None])[0].numpy()
    return graph, dense


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(5, 30), st.sampled_from([0.0, 0.3, 0.9, 0.98]))
def test_low_pass_solves_the_system(seed, points, share):
    generator = np.random.default_rng(seed)
    graph, W = random_graph(generator, points)
    X = generator.normal(size=(points, 4))
    scale = 1 / np.sqrt(W.sum(axis=1))
    S = W * scale[:, None] * scale
    exact = (1 - share) * np.linalg.solve(np.eye(points) - share * S, X)
    found = low_pass(graph, torch.from_numpy(X)[None], (share, 0.0))
    np.testing.assert_allclose(found[0][0].numpy(), exact, atol=0.02 * np.linalg.norm(X, 2))
    np.testing.assert_array_equal(found[1][0].numpy(), X)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(2, 9), st.sampled_from([0.01, 0.3, 3.0]), st.booleans())
def test_left_out_predictions_are_those_of_refits(seed, labelled, dimension, penalty, balanced):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(labelled + 4, dimension))
    rows = generator.permutation(len(X))[:labelled]
    classes = generator.integers(0, 3, labelled)
    one_hot = np.eye(3)[classes]
    labels = Labels(torch.from_numpy(rows)[None], torch.from_numpy(one_hot)[None])
    found = fit([torch.from_numpy(X)[None]], labels, (penalty,), default=(0, 0), balanced=(balanced,))
    A, Y = X[rows], one_hot - 1 / 3
    weights = compute_sample_weight("balanced" if balanced else None, classes)

    def refit(kept):
        W = A[kept].T * weights[kept]
        return np.linalg.solve(W @ A[kept] + penalty * np.eye(dimension), W @ Y[kept])

    np.testing.assert_allclose(found.coefficients[0].numpy(), refit(np.arange(labelled)), atol=1e-8)
    for i in range(labelled):
        logits = 12.0 * (A[i] @ refit(np.delete(np.arange(labelled), i)))
        expected = np.exp(logits - logits.max())
        np.testing.assert_allclose(found.left_out[0, i].exp().numpy(), expected / expected.sum(), atol=1e-6)


def test_settings_are_chosen_by_the_labels(monkeypatch):
    """Classes that are long bands need smoothing; classes by a single coordinate among noise do not."""
    generator = np.random.default_rng(0)
    along = generator.uniform(0, 3, 600)
    band = generator.integers(0, 2, 600)
    spiral = np.c_[np.cos(along * 2 + np.pi * band), np.sin(along * 2 + np.pi * band)] * (1 + along[:, None])
    rows = generator.permutation(600)[:300]
    monkeypatch.setattr("fsl.extra.smoothed_ridge.FEW", 0)
    strategy = SmoothedRidge(transform="UN")
    for X, y, smooth in ((spiral, band, True), (generator.normal(size=(600, 20)), None, False)):
        y = (X[:, 0] > 0).astype(int) if y is None else y
        points = strategy.prepare(torch.from_numpy(X))
        labels = Labels(torch.from_numpy(rows)[None], torch.eye(2, dtype=torch.float64)[y[rows]][None])
        ridge, _ = strategy.fitted(points, labels, None)
        assert (points.smoothings[int(ridge.level[0])] >= 0.9) == smooth


@pytest.mark.parametrize("shots", [2, 5, 20])
def test_equally_many_labels_of_unequal_classes(shots):
    """Without an intercept, large classes lose most of their points to small ones."""
    X, y = make_blobs([1000, 300, 100, 30, 30], 20, cluster_std=4, random_state=0)
    generator = np.random.default_rng(0)
    labels = np.full(len(y), -1)
    for k in range(5):
        labels[generator.permutation(np.flatnonzero(y == k))[:shots]] = k
    rest = labels < 0
    found = TransductiveClassifier().fit(X, labels).transduction_
    assert (found == y)[rest].mean() > 0.98
