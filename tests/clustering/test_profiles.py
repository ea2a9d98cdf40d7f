"""What tells clusters apart, against loops over rows, and what must hold whatever the table."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.evaluation.profiles import principal_plane, profiles, relabelled_like


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 4), st.integers(1, 4))
def test_profiles_against_loops(seed, points, columns, clusters):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(points, columns)) * [10.0**j for j in range(columns)] + 5
    labels = generator.integers(0, clusters, points)
    found = profiles(values, labels)
    assert sum(profile.rows for profile in found) == points
    assert [profile.rows for profile in found] == sorted((profile.rows for profile in found), reverse=True)
    for profile in found:
        members = [i for i in range(points) if labels[i] == profile.cluster]
        others = [i for i in range(points) if labels[i] != profile.cluster]
        assert profile.rows == len(members)
        for column, mean, difference in zip(values.T, profile.means, profile.differences, strict=True):
            inside = sum(column[i] for i in members) / len(members)
            outside = sum(column[i] for i in others) / len(others) if others else inside
            assert mean == pytest.approx(inside)
            spread = (sum((v - sum(column) / points) ** 2 for v in column) / points) ** 0.5
            assert difference == pytest.approx((inside - outside) / spread, abs=1e-9)
        assert set(profile.typical) <= set(members)
        unit, centre = values.std(axis=0), values[members].mean(axis=0)
        distances = {i: sum(((values[i] - centre) / unit) ** 2) for i in members}
        assert [distances[i] for i in profile.typical] == pytest.approx(sorted(distances.values())[:3])


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_clusters_called_alike_are_the_same_clusters_and_share_as_many_rows_as_can_be(pairs):
    labels, other = np.array(pairs).T
    called = relabelled_like(labels, other, 4)
    assert ((called[:, None] == called) == (other[:, None] == other)).all()
    best = max((np.array(names)[other] == labels).sum() for names in permutations(range(4)))
    assert (called == labels).sum() == best


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_the_plane_keeps_what_it_says(seed, columns):
    values = np.random.default_rng(seed).normal(size=(20, columns)) * np.arange(1, columns + 1)
    plane, kept = principal_plane(values)
    assert plane.shape == (20, 2)
    assert kept == pytest.approx(np.square(plane).sum() / (20 * columns))  # every column counts 20
    assert kept <= 1 + 1e-12
    if columns <= 2:
        assert kept == pytest.approx(1)
    shifted, _ = principal_plane(values * 3 - 7)
    np.testing.assert_allclose(np.abs(shifted), np.abs(plane), atol=1e-8)  # either way up
