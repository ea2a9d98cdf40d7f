"""Labels and links: what follows from them, and what contradicts what."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.constraints import check_room, constraints
from clustering.foundation.errors import InputError


def every_conclusion(
    points: int,
    labels: NDArray[np.int64],
    must: NDArray[np.int64],
    cannot: NDArray[np.int64],
    coarse: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(N, N) pairs known to be together, and known to be apart, by drawing conclusions until there are no more."""
    together, apart = np.eye(points, dtype=bool), np.zeros((points, points), dtype=bool)
    for one, other in must:
        together[one, other] = together[other, one] = True
    for one, other in cannot:
        apart[one, other] = apart[other, one] = True
    for one, other in combinations(range(points), 2):
        if labels[one] >= 0 and labels[other] >= 0:
            known = together if labels[one] == labels[other] else apart
            known[one, other] = known[other, one] = True
        if coarse[one] >= 0 and coarse[other] >= 0 and coarse[one] != coarse[other]:
            apart[one, other] = apart[other, one] = True
    for _ in range(points):
        together = together | (together.astype(int) @ together.astype(int) > 0)
        apart = apart | (together.astype(int) @ apart.astype(int) @ together.astype(int) > 0)
    return together, apart


@settings(max_examples=25)
@given(
    truth=st.lists(st.integers(0, 2), min_size=2, max_size=9),
    seed=st.integers(0, 100_000),
    labelled=st.floats(0, 1),
    linked=st.floats(0, 0.5),
    coarsely=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_all_that_follows_is_known(
    truth: list[int], seed: int, labelled: float, linked: float, coarsely: float
) -> None:
    generator, classes = np.random.default_rng(seed), np.array(truth)
    points = len(classes)
    labels = np.where(generator.random(points) < labelled, classes, -1)
    coarse = np.where(generator.random(points) < coarsely, np.minimum(classes, 1), -1)  # 0, or one of 1 and 2
    drawn = np.array([pair for pair in combinations(range(points), 2) if generator.random() < linked])
    drawn = drawn.reshape(-1, 2).astype(np.int64)
    same = classes[drawn[:, 0]] == classes[drawn[:, 1]]
    found = constraints(points, labels=labels, must_link=drawn[same], cannot_link=drawn[~same], coarse_labels=coarse)
    together, apart = every_conclusion(points, labels, drawn[same], drawn[~same], coarse)
    known = found.among(np.arange(points))
    np.testing.assert_array_equal(known.mask, together | apart)
    np.testing.assert_array_equal(known.values, together)
    if not coarsely:  # which says something in any batch, and so draws no point into one
        np.testing.assert_array_equal(found.constrained, (together | apart).sum(axis=1) + (found.labels >= 0) > 1)
    copied = np.repeat(np.arange(points), 2)  # a copy is of the cluster of what it is a copy of
    np.testing.assert_array_equal(found.among(copied).values, together[copied][:, copied])
    some = generator.permutation(points)[: points // 2]
    np.testing.assert_array_equal(found.among(some).mask, known.mask[some][:, some])
    told = found.labels >= 0
    np.testing.assert_array_equal(found.labels[told], classes[told])
    np.testing.assert_array_equal(told, (together & (labels >= 0)).any(axis=1))


def test_a_point_that_is_apart_from_every_cluster_is_refused() -> None:
    labels = np.array([0, 1, 2, -1, -1, -1, -1])
    free = constraints(7, labels=labels, cannot_link=[(3, 0), (3, 1), (4, 5)])
    check_room(free, 3)
    linked = {"must_link": [(3, 4), (2, 6)], "cannot_link": [(3, 0), (3, 1), (4, 6)]}
    check_room(constraints(7, labels=labels, **linked), 4)
    with pytest.raises(InputError, match=r"point 3 .*all 3 clusters"):
        check_room(constraints(7, labels=labels, **linked), 3)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"must_link": [(0, 2), (2, 3)]}, "points 0 and 3 .*0 and 1.*must_link"),
        (
            {"cannot_link": [(2, 3), (4, 5)], "must_link": [(4, 2), (2, 5)]},
            r"cannot_link .*4 and 5.*must_link",
        ),
        ({"cannot_link": [(0, 1)]}, "cannot_link .*0 and 1.*label"),
        ({"must_link": [(0, 6)]}, r"must_link pair 0 .*\[0, 6\].*0\.\.5"),
        ({"cannot_link": [(0, 2), (-1, 2)]}, r"cannot_link pair 1 .*\[-1, 2\]"),
        ({"must_link": [(2, 2)]}, r"pair 0 .*\[2, 2\]"),
        ({"must_link": [0, 1]}, r"must_link .*pairs"),
        ({"must_link": [(0.5, 1.0)]}, r"must_link .*float64"),
        ({"coarse_labels": [2, 1, -1, -1, -1, -1]}, "points 0 and 1 have coarse label 2 and 1.*label"),
        ({"coarse_labels": [0, -1, -1, -1, 0, 1], "must_link": [(4, 5)]}, "points 4 and 5 .*must_link"),
        ({"coarse_labels": [0, 1]}, r"coarse_labels .*6 integers"),
        ({"coarse_labels": [0.0] * 6}, r"coarse_labels .*6 integers"),
        ({"coarse_labels": [-2] * 6}, r"coarse_labels .*integers"),
    ],
)
def test_what_cannot_be_is_named(given_: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        constraints(6, labels=np.array([0, 0, -1, 1, -1, -1]), **given_)
