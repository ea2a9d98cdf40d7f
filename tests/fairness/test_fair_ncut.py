"""FairNcut: its term by finite differences, descent at any weight, the synthetic sets, bad input."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from clustering.foundation.errors import InputError
from clustering.graphs.row_graph import given_graph
from fairness import FairNcut
from fairness.optimiser.fair_spectrum import fair_embedding
from fairness.optimiser.terms import NormalizedCut
from fairness.trade_off import GRID
from tests.fairness.thesis_sets import draw, synthetic, unequal

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def random_cut(seed, N=9, K=3):
    drawn = np.random.default_rng(seed)
    W = np.triu(drawn.random((N, N)) * (drawn.random((N, N)) < 0.5), 1)
    W[0, 1:] = 0.1
    W = W + W.T
    graph = given_graph(sparse.csr_matrix(W), N).to(torch.float64)
    S = torch.from_numpy(drawn.dirichlet(np.ones(K), N))[None]
    return W, NormalizedCut(graph, graph.degrees), S


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_the_term_is_the_cut_and_its_gradient_is_the_slope(seed):
    """With z = S'WS / (d'S)^2, squared, and 2 (W S_k)_p of neighbours: what the thesis prints fails here."""
    W, term, S = random_cut(seed)
    value, gradient = term.value_and_gradient(S)
    s = S[0].numpy()
    loop = sum(1 - (s[:, k] @ W @ s[:, k]) / (W.sum(axis=1) @ s[:, k]) for k in range(3))
    assert float(value) == pytest.approx(loop, abs=1e-12)
    for p in range(9):
        for k in range(3):
            step = torch.zeros_like(S)
            step[0, p, k] = 1e-5
            slope = (term.value_and_gradient(S + step)[0] - term.value_and_gradient(S - step)[0]) / 2e-5
            assert float(slope) == pytest.approx(float(gradient[0, p, k]), rel=1e-5, abs=1e-8)
    assert float((S * gradient).sum()) == pytest.approx(float(value) - 3)  # K - F is of degree 1


@quiet
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), exponent=st.floats(-6, 6), K=st.integers(1, 5), J=st.integers(2, 5))
def test_the_objective_never_rises(seed, exponent, K, J):
    X, groups = draw(seed, J=J)
    model = FairNcut(K, fairness_weight=10.0**exponent, n_neighbors=5, max_iter=20, n_init=1, small_groups="keep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.set_params(random_state=seed).fit(X, sensitive_features=groups)
    for before, after in zip(model.history_, model.history_[1:], strict=False):
        if before.weight == after.weight:
            assert after.objective <= before.objective + 1e-12 * (1 + after.weight) * 10 * K
    assert model.n_iter_ == max(1, len(model.history_))
    assert model.group_counts_.sum() == len(X)
    assert 0 <= model.objective_ <= K


@quiet
@pytest.mark.parametrize(("made", "fair", "cut"), [(synthetic, 1.0, 0.02), (unequal, 1 / 3, 0.2)])
def test_the_sets_of_the_thesis(made, fair, cut):
    """Table 3.3: error 0 and the balance of the data, for a small cut where there is one."""
    X, groups = made()
    model = FairNcut(2, n_init=1, max_iter=50, random_state=0)
    none, some = model.path(X, [0, 100], sensitive_features=groups)
    assert none.fairness_error_ > 10
    assert some.fairness_error_ < 1e-3
    assert some.balance_min_ == pytest.approx(fair, abs=0.02)
    assert some.objective_ < cut


@quiet
def test_it_is_the_same_for_a_given_graph_and_other_names():
    X, groups = draw(0, 60)
    options = {"fairness_weight": 3.0, "n_neighbors": 6, "random_state": 0, "n_init": 1, "max_iter": 20}
    first = FairNcut(3, **options).fit(X, sensitive_features=groups)
    again = FairNcut(3, **options).fit(X, sensitive_features=np.array(list("zxy"))[groups], graph=first.graph_)
    np.testing.assert_array_equal(first.labels_, again.labels_)
    assert again.objective_ == pytest.approx(first.objective_)
    both = FairNcut(3, **options).fit(X, sensitive_features={"a": groups, "b": np.arange(60) % 2})
    assert both.group_counts_.shape == (5, 3)
    by_flow = FairNcut(3, rounding="flow", **options).fit(X, sensitive_features=groups)
    assert abs(by_flow.group_counts_ - first.group_counts_).sum() <= 20
    labels = np.arange(60) % 3
    assert FairNcut(3, **{**options, "init": labels}).fit(X, sensitive_features=groups).n_iter_ >= 1


@quiet
def test_a_search_for_a_goal_has_one_spectral_start(monkeypatch):
    X, groups = draw(1, 60)
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return fair_embedding(*arguments)

    monkeypatch.setattr("fairness.fair_ncut.fair_embedding", counted)
    options = {"n_neighbors": 6, "n_init": 1, "max_iter": 5, "random_state": 0}
    model = FairNcut(3, fairness_weight={"max_error": 0.02}, **options).fit(X, sensitive_features=groups)
    assert len({trial.weight for trial in model.weight_path_}) > len(GRID)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("options", "groups", "words"),
    [
        ({"n_clusters": 7}, None, "n_samples=6"),
        ({"init": [0, 1]}, None, "init"),
        ({"init": "random"}, None, "init"),
        ({"n_neighbors": 0}, None, "n_neighbors"),
        ({}, list("aaaaab"), "'b' .*1 points"),
    ],
)
def test_what_cannot_be_fitted_is_said(options, groups, words):
    with pytest.raises(InputError, match=words):
        FairNcut(**{"n_clusters": 2, "fairness_weight": 0, **options}).fit(
            np.arange(6.0)[:, None], sensitive_features=groups
        )
    with pytest.raises(InputError, match="weights"):
        FairNcut(2).path(np.eye(6), [])
