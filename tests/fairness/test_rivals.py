"""Rivals: what their papers state, oracles, limits, balance of fairlets, and parameters that cannot be."""

import inspect
import itertools
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import fairness.rivals
from clustering.foundation.errors import InputError
from fairness.assignment import fair_assignment
from fairness.groups import groups_of
from fairness.optimiser.fair_spectrum import fair_embedding
from fairness.rivals import RIVALS, Backurs, Bera, FairAlignment, FairLloyd, Kleindessner
from fairness.rivals.backurs import tree_fairlets
from fairness.rivals.base import costs
from fairness.rivals.chierichetti import cheapest_fairlets
from fairness.rivals.fairlets import representatives, wanted_balance
from tests.oracles.alignment_transport import transport
from tests.oracles.fair_assignment_lp import fair_lp
from tests.oracles.fair_spectral_dense import fair_vectors

TWO_GROUPS = {"Backurs", "Chierichetti"}


def made(name: str, n_clusters: int, **changes: Any) -> Any:
    return getattr(fairness.rivals, name)(n_clusters, random_state=0, **changes)


def blobs(seed: int, N: int = 60, groups: int = 2) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Three blobs, of which each has more of one group."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, 3, N)
    sensitive = np.where(rng.random(N) < 0.6, of % groups, rng.integers(0, groups, N))
    sensitive[:10] = np.arange(10) % groups  # so that there are five of each
    return 4 * np.eye(3)[of] + rng.normal(size=(N, 3)), sensitive


@pytest.mark.parametrize("name", RIVALS)
def test_a_group_of_fewer_points_than_clusters_is_refused_unless_it_may_be_missing(name):
    X, sensitive = blobs(3)
    sensitive[:] = 0
    sensitive[:2] = 1
    with pytest.raises(InputError, match=r"'1' .*2 points.*n_clusters=3"):
        made(name, 3).fit(X, sensitive_features=sensitive)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # two fairlets make two clusters
        model = made(name, 3, small_groups="keep").fit(X, sensitive_features=sensitive)
    assert len(model.labels_) == len(X)


@pytest.mark.parametrize("name", RIVALS)
def test_three_groups_where_the_method_is_for_two(name):
    X, sensitive = blobs(4, groups=3)
    if name in TWO_GROUPS:
        with pytest.raises(InputError, match=f"{name} .*3: 0, 1, 2"):
            made(name, 3).fit(X, sensitive_features=sensitive)
    else:
        assert made(name, 3).fit(X, sensitive_features=sensitive).group_counts_.shape == (3, 3)


@pytest.mark.parametrize("name", RIVALS)
def test_every_parameter_is_checked(name):
    X, _ = blobs(5)
    for parameter in inspect.signature(type(made(name, 3))).parameters:
        if parameter in ("init", "target", "random_state"):
            continue
        with pytest.raises(InputError, match=f"{name}: {parameter} "):
            made(name, 3).set_params(**{parameter: -1}).fit(X)


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


RATIOS = [(1, 1), (1, 2), (1, 4), (2, 3), (3, 7)]


def coloured(seed: int, N: int, p: int, q: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points with duplicates, of two colours of which the rarer has a share of p / q or a little more of the other."""
    rng = np.random.default_rng(seed)
    fewer = min(-(-N * p // (p + q)) + int(rng.integers(0, 3)), N // 2)
    fewer = fewer if fewer * q >= (N - fewer) * p else N // 2
    colours = rng.permutation(np.arange(N) < fewer).astype(np.int64)
    x = rng.normal(size=(N, int(rng.integers(1, 5)))) + colours[:, None]
    x[rng.random(N) < 0.2] = x[0]
    return x, colours if seed % 2 else 1 - colours


def ratios(fairlets: NDArray[np.int64], colours: NDArray[np.int64]) -> list[Fraction]:
    """The rarer colour to the other, of each fairlet."""
    found = []
    for fairlet in range(int(fairlets.max()) + 1):
        own = colours[fairlets == fairlet]
        fewer, more = sorted([int((own == 0).sum()), int((own == 1).sum())])
        assert more > 0
        found.append(Fraction(fewer, more))
    return found


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 30), st.sampled_from(RATIOS))
def test_fairlets_of_the_tree_are_balanced_and_small(seed, half, ratio):
    p, q = ratio
    x, colours = coloured(seed, 2 * half, p, q)
    fairlets = tree_fairlets(x, colours, p, q, np.random.default_rng(seed))
    assert min(ratios(fairlets, colours)) >= Fraction(p, q)
    assert np.bincount(fairlets).max() <= 2 * (p + q)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 20), st.integers(1, 6))
def test_the_centre_of_a_fairlet_is_its_cheapest_member(seed, N, fairlets):
    rng = np.random.default_rng(seed)
    x, of = rng.normal(size=(N, 2)), np.unique(rng.integers(0, fairlets, N), return_inverse=True)[1]
    places, total = representatives(x, of)
    paid = 0.0
    for fairlet in range(of.max() + 1):
        own = x[of == fairlet]
        sums = [sum(np.linalg.norm(own - member, axis=1)) for member in own]
        paid += min(sums)
        here = places[of == fairlet]
        assert (here == here[0]).all()
        assert sum(np.linalg.norm(own - here[0], axis=1)) == pytest.approx(min(sums))
    assert total == pytest.approx(paid)


@settings(max_examples=6)
@given(st.integers(0, 1000), st.sampled_from(["kmedian", "kmeans"]))
def test_clusters_are_as_balanced_as_their_fairlets(seed, kind):
    X, sensitive = blobs(seed)
    model = Backurs(3, kind=kind, n_init=2, random_state=seed).fit(X, sensitive_features=sensitive)
    p, q = model.balance_wanted_
    assert model.balance_min_ * q >= p - 1e-9
    for fairlet in np.unique(model.fairlets_):
        assert len(np.unique(model.labels_[model.fairlets_ == fairlet])) == 1
    paid = np.linalg.norm(X - model.cluster_centers_[model.labels_], axis=1) ** (1 if kind == "kmedian" else 2)
    assert model.objective_ == pytest.approx(paid.sum())


def test_the_balance_that_is_wanted():
    adult = groups_of([0] * 10_771 + [1] * 21_790, 32_561)
    assert wanted_balance(None, adult, "Backurs", most=10) == (3, 7)
    assert wanted_balance((2, 6), adult, "Backurs", most=10) == (1, 3)
    assert wanted_balance(None, groups_of([0, 1, 1, 0], 4), "Backurs", most=10) == (1, 1)
    assert wanted_balance(None, groups_of([0] + [1] * 100, 101), "Backurs", most=10) == (1, 100)
    message = r"balance=1/2 .*10771 .*21790 .*0\.4943"
    with pytest.raises(InputError, match=message):
        wanted_balance((1, 2), adult, "Backurs", most=10)
    with pytest.raises(InputError, match="balance"):
        wanted_balance((3, 2), adult, "Backurs", most=10)


def star_cost(x: NDArray[np.float64], fairlets: NDArray[np.int64], colours: NDArray[np.int64]) -> float:
    """Sum of the distances between the one point of a colour and those of the other, over the fairlets."""
    total = 0.0
    for fairlet in np.unique(fairlets):
        own = np.flatnonzero(fairlets == fairlet)
        one = min((own[colours[own] == colour] for colour in (0, 1)), key=len)
        assert len(one) == 1
        total += float(np.linalg.norm(x[own] - x[one[0]], axis=1).sum())
    return total


def least_star_cost(x: NDArray[np.float64], colours: NDArray[np.int64], t: int) -> float:
    """The same over every partition into stars, one after the other."""

    def rest(left: frozenset[int]) -> float:
        if not left:
            return 0.0
        first, best = min(left), float("inf")
        for centre in left:
            others = [p for p in left if colours[p] != colours[centre]]
            for size in range(1, t + 1):
                for leaves in itertools.combinations(others, size):
                    if first == centre or first in leaves:
                        cost = sum(float(np.linalg.norm(x[p] - x[centre])) for p in leaves)
                        best = min(best, cost + rest(left - {centre, *leaves}))
        return best

    return rest(frozenset(range(len(x))))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 7), st.integers(1, 3))
def test_cheapest_fairlets_are_the_cheapest_of_all(seed, N, t):
    rng = np.random.default_rng(seed)
    fewer = -(-N // (t + 1)) if t > 1 else max(1, N // 2)
    N = N if t > 1 else 2 * fewer
    colours = rng.permutation(np.arange(N) < fewer).astype(np.int64)
    x = rng.normal(size=(N, 2))
    x[rng.random(N) < 0.3] = x[0]
    fairlets = cheapest_fairlets(x, colours, t)
    assert min(ratios(fairlets, colours)) >= Fraction(1, t)
    assert star_cost(x, fairlets, colours) == pytest.approx(least_star_cost(x, colours, t), abs=1e-5)


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
