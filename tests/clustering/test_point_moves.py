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
from sklearn.datasets import load_digits

from clustering import KernelKMeans, Ncut
from clustering.graphs.neighbours import neighbours
from clustering.graphs.point_moves import single_moves
from clustering.graphs.relaxed_cut import relaxed_cut
from clustering.graphs.row_graph import given_graph, scipy_graph
from clustering.kernel_kmeans import densest_apart
from clustering.metrics import graph_objectives
from clustering.optimiser.centres import Rows


def by_loops(A: NDArray[np.float64], weights: NDArray[np.float64], labels: NDArray[np.int64], K: int) -> float:
    """-sum_k S_k^T A S_k / w^T S_k."""
    objective = 0.0
    for k in range(K):
        members = [p for p in range(len(labels)) if labels[p] == k]
        mass = sum(weights[p] for p in members)
        objective -= sum(A[p, q] for p in members for q in members) / mass if members else 0.0
    return objective


def by_groups(A: NDArray[np.float64], labels: NDArray[np.int64], K: int) -> float:
    """The same of weights that are the sums of rows: the normalised cut less K."""
    return -sum(float(A[labels == k][:, labels == k].sum() / A[labels == k].sum()) for k in range(K))


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


def test_moves_end_after_the_rounds_they_are_given_and_fill_empty_clusters() -> None:
    A = sparse.csr_array(kernel(0, 30))
    first = np.zeros(30, dtype=np.int64)
    none = single_moves(A, A.sum(axis=1), first, 3, 0)
    assert not none.converged
    assert sorted(np.bincount(none.labels)) == [1, 1, 28]
    some = single_moves(A, A.sum(axis=1), first, 3, 1)
    assert not some.converged
    assert some.rounds == 1


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


def test_on_digits_cuts_and_associations_are_below_those_of_scikit_learn_from_any_seed() -> None:
    X = load_digits().data[:500]
    W = scipy_graph(given_graph(neighbours(torch.from_numpy(X), 5), 500))
    others = [graph_objectives(of_scikit_learn(W, 10, assign), W) for assign in ("kmeans", "discretize", "cluster_qr")]
    for seed in range(2):
        for discretize in ("both", "kmeans"):
            model = Ncut(10, discretize=discretize, random_state=seed).fit(X, graph=W)
            assert model.objective_ < min(other.normalised_cut for other in others)
        association = KernelKMeans(10, random_state=seed).fit(X, graph=W)
        assert association.converged_
        assert association.objective_ < min(other.average_association for other in others)


def test_starts_depend_on_the_seed_and_are_not_worse_for_being_more() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    W = scipy_graph(given_graph(neighbours(torch.from_numpy(X), 5), 200))
    fits = [Ncut(12, n_init=4, random_state=seed).fit(X, graph=W) for seed in range(2)]
    assert not np.array_equal(fits[0].start_objectives_, fits[1].start_objectives_)
    one = Ncut(12, n_init=1, random_state=0).fit(X, graph=W)
    assert one.objective_ == pytest.approx(fits[0].start_objectives_[0])
    assert fits[0].objective_ == fits[0].start_objectives_.min()


def test_without_regularization_moves_lower_the_cut_of_the_graph_and_with_it_that_of_the_tied_one() -> None:
    X = np.random.default_rng(1).normal(size=(60, 2))
    W = scipy_graph(given_graph(neighbours(torch.from_numpy(X), 4), 60))
    for regularization in (0.0, 0.5):
        tied = W.toarray() + regularization * W.sum() / 60**2
        found = relaxed_cut(
            W, Rows.of(torch.from_numpy(X)), 4, 2, 0, discretize="both", regularization=regularization, max_rounds=100
        )
        for labels in found.labels:
            cut = by_loops(tied, tied.sum(axis=1), labels, 4)
            for p in range(60):
                other = labels.copy()
                for k in range(4):
                    other[p] = k
                    assert len(set(other)) < 4 or by_groups(tied, other, 4) >= cut - 1e-8


def test_of_parts_without_arcs_between_them_the_densest_stand_alone() -> None:
    blocks = [weight * (np.ones((n, n)) - np.eye(n)) for n, weight in ((4, 1.0), (2, 9.0), (3, 0.5), (5, 2.0))]
    W = sparse.csr_array(sparse.block_diag(blocks))
    labels = densest_apart(W, 3)
    assert [set(part) for part in np.split(labels, [4, 6, 9])] == [{2}, {0}, {2}, {1}]
    X = np.random.default_rng(0).normal(size=(14, 2))
    model = KernelKMeans(3, random_state=0).fit(X, graph=W)
    assert model.objective_ <= graph_objectives(labels, W).average_association + 1e-9


def test_where_the_cut_says_nothing_kernel_k_means_begins_at_seeds() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.warns(UserWarning, match="negative"):
        model = KernelKMeans(2, random_state=0).fit(X, graph=-np.ones((20, 20)))
    assert len(model.start_objectives_) == 8
    few = np.zeros((20, 20))
    few[0, 1] = few[1, 0] = 1.0
    assert KernelKMeans(3, random_state=0).fit(X, graph=few).n_empty_ == 0
