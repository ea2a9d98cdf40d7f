"""Fairlets: their balance, whatever the points; what they cost; and clusters that keep it."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from fairness.groups import groups_of
from fairness.rivals import Backurs
from fairness.rivals.backurs import tree_fairlets
from fairness.rivals.chierichetti import cheapest_fairlets
from fairness.rivals.fairlets import representatives, wanted_balance
from tests.fairness.test_rivals import blobs

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
