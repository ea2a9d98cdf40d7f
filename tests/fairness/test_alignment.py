"""Fair clustering via alignment: its hubs against the transport of the paper, its aligned points, its limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from fairness.assignment import fair_assignment
from fairness.groups import groups_of
from fairness.rivals import FairAlignment
from fairness.rivals.base import costs
from tests.fairness.test_rivals import blobs
from tests.oracles.alignment_transport import transport


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 8), st.integers(1, 4))
def test_hubs_find_the_transport_of_the_paper(seed, first, second, K):
    rng = np.random.default_rng(seed)
    X, centres = rng.normal(size=(first + second, 2)), rng.normal(size=(K, 2))
    groups = groups_of(np.repeat([0, 1], [first, second]), first + second)
    found = fair_assignment(costs(X, centres), groups, groups.target, groups.target, generator=rng)
    assert found.value / (first + second) == pytest.approx(transport(X[:first], X[first:], centres), abs=1e-6)


@settings(max_examples=8)
@given(st.integers(0, 1000), st.integers(2, 4))
def test_the_cost_never_rises_and_clusters_have_the_proportions_of_the_data(seed, J):
    X, sensitive = blobs(seed, groups=J)
    model = FairAlignment(3, n_init=1, random_state=seed).fit(X, sensitive_features=sensitive)
    assert (np.diff(model.history_) <= 1e-6 * model.history_[0]).all()
    sizes = model.group_counts_.sum(axis=0)
    assert (np.abs(model.group_counts_ - model.target_[:, None] * sizes) < 2).all()


def test_from_fair_to_unfair():
    X, sensitive = blobs(0, N=90)
    errors, objectives = [], []
    for unaligned in (0.0, 0.3, 1.0):
        model = FairAlignment(3, unaligned=unaligned, random_state=0).fit(X, sensitive_features=sensitive)
        errors.append(model.fairness_error_)
        objectives.append(model.objective_)
    assert errors[0] < 0.05 < errors[1] < errors[2]
    assert objectives[0] > objectives[1] > objectives[2]
    assert objectives[2] == pytest.approx(KMeans(3, n_init=10, random_state=0).fit(X).inertia_)
