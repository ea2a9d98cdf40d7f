"""Bera and FairLloyd: bounds, costs and limits of methods with fair assignments to centres."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fairness.rivals import Bera, FairLloyd
from fairness.rivals.base import costs
from tests.fairness.test_rivals import blobs
from tests.oracles.fair_assignment_lp import fair_lp

KINDS = st.sampled_from(["kmeans", "kmedian"])


@settings(max_examples=10)
@given(
    st.integers(0, 1000), st.integers(2, 3), st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from(["kmeans", "kmedian"])
)
def test_bera_pays_no_more_than_the_linear_programme_and_is_next_to_its_bounds(seed, groups, delta, kind):
    X, sensitive = blobs(seed, N=40, groups=groups)
    model = Bera(3, kind=kind, delta=delta, n_init=1, random_state=seed).fit(X, sensitive_features=sensitive)
    paid = np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2) ** (2 if kind == "kmeans" else 1)
    indicators = sensitive[:, None] == np.arange(groups)
    shares = indicators.mean(axis=0)
    best = fair_lp(paid, indicators, shares * (1 - delta), np.minimum(shares / (1 - delta), 1))
    assert best is not None
    assert model.lp_value_ == pytest.approx(best[0], rel=1e-6)
    assert model.assignment_cost_ <= model.lp_value_ * (1 + 1e-6)
    assert model.assignment_cost_ == pytest.approx(paid[np.arange(40), model.labels_].sum())
    assert model.violation_ < 2
    assert model.unfair_objective_ == pytest.approx(paid.min(axis=1).sum())


def test_a_target_that_no_assignment_can_reach_is_refused():
    X, sensitive = blobs(2)
    with (
        pytest.warns(UserWarning, match="target of 'group'"),
        pytest.raises(InputError, match="group '0'"),
    ):
        Bera(3, delta=0.0, target={0: 0.1, 1: 0.9}).fit(X, sensitive_features=sensitive)


@settings(max_examples=5)
@given(st.integers(0, 1000), st.integers(2, 4), st.sampled_from([0.0, 0.2]), KINDS)
def test_fair_lloyd_never_rises_and_begins_where_bera_ends(seed, groups, delta, kind):
    X, sensitive = blobs(seed, groups=groups)
    how = {"kind": kind, "delta": delta, "n_init": 1, "random_state": seed}
    lloyd = FairLloyd(3, **how).fit(X, sensitive_features=sensitive)
    bera = Bera(3, **how).fit(X, sensitive_features=sensitive)
    assert (np.diff(lloyd.history_) <= 1e-6 * lloyd.history_[0]).all()
    assert lloyd.history_[0] == pytest.approx(bera.lp_value_, rel=1e-6)
    assert lloyd.violation_ < 2
    if kind == "kmeans":
        np.testing.assert_allclose(lloyd.cluster_centers_[0], X[lloyd.labels_ == 0].mean(axis=0))
    else:  # medoids cost no less than geometric medians
        apart = np.linalg.norm(X - lloyd.cluster_centers_[lloyd.labels_], axis=1).sum()
        assert apart <= lloyd.objective_ * (1 + 1e-4)


def test_fair_lloyd_on_clusters_of_one_group_each():
    """Two pairs of blobs, of one group each: the fair clusters join one of each group, at the cost of the distance."""
    rng = np.random.default_rng(0)
    corners = np.array([[0, 0], [2, 0], [0, 9], [2, 9]])
    X = np.concatenate([corner + 0.01 * rng.normal(size=(50, 2)) for corner in corners])
    sensitive = np.repeat([0, 0, 1, 1], 50)
    assert np.isnan(FairLloyd(2, random_state=0).fit(X).balance_min_)  # of one group
    unfair = Bera(2, delta=0.99, small_groups="keep", random_state=0).fit(X, sensitive_features=sensitive)
    fair = FairLloyd(2, random_state=0).fit(X, sensitive_features=sensitive)
    assert (unfair.balance_min_, fair.balance_min_) == (pytest.approx(0, abs=0.03), 1)
    assert fair.fairness_error_ == pytest.approx(0, abs=1e-12)
    assert fair.objective_ == pytest.approx(200 * 4.5**2, rel=1e-2)


@pytest.mark.parametrize("kind", ["kmeans", "kmedian"])
def test_costs_far_from_zero(kind):
    rng = np.random.default_rng(0)
    X, centres = 1e6 + rng.normal(size=(50, 3)), 1e6 + rng.normal(size=(4, 3))
    exact = np.linalg.norm(X[:, None] - centres, axis=2) ** (2 if kind == "kmeans" else 1)
    np.testing.assert_allclose(costs(X, centres, kind), exact, rtol=1e-6)
