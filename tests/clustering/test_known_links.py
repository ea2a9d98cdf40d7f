"""Links that are drawn: true, each pair once, fewer of them among more."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustering.evaluation.known_links import KnownLinks, drawn_links
from clustering.foundation.errors import InputError


def as_set(links: KnownLinks) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for part in links for i, j in part}


@given(labels=st.lists(st.integers(0, 2), min_size=1, max_size=12), seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_they_are_true_and_each_pair_comes_once(labels: list[int], seed: int, share: float) -> None:
    classes, every = np.array(labels), len(labels) * (len(labels) - 1) // 2
    count = round(share * every)
    found = drawn_links(classes, count, seed)
    assert len(found.must_link) + len(found.cannot_link) == count
    assert len(as_set(found)) == count
    assert all(i < j for i, j in as_set(found))
    assert all(classes[i] == classes[j] for i, j in found.must_link)
    assert all(classes[i] != classes[j] for i, j in found.cannot_link)
    assert as_set(found) <= as_set(drawn_links(classes, every, seed))
    assert as_set(drawn_links(classes, every, seed)) == set(combinations(range(len(labels)), 2))


def test_more_than_there_are() -> None:
    with pytest.raises(InputError, match=r"links=4: .*3 pairs"):
        drawn_links(np.zeros(3), 4, 0)
