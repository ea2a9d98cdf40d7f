"""Batches: none loses a class, no linked point comes without a partner, and bounds on sizes can be met in each."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.constraints import Constraints, constraints
from clustering.deep.xsdc.batches import Batch, batches


def draw(known: Constraints, size: int, count: int = 12, seed: int = 0, **kwargs: float) -> list[Batch]:
    return list(islice(batches(known, size, np.random.default_rng(seed), **kwargs), count))  # type: ignore[arg-type]


def some_labels(classes: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Of about this share of points, of every class one at least."""
    labels = np.where(np.random.default_rng(0).random(len(classes)) < share, classes, -1)
    if share:
        first = np.unique(classes, return_index=True)[1]
        labels[first] = classes[first]
    return labels


@settings(max_examples=15)
@given(labelled=st.integers(0, 9), others=st.integers(0, 9), size=st.integers(1, 9), seed=st.integers(0, 1000))
def test_batches_are_full_and_go_round(labelled: int, others: int, size: int, seed: int) -> None:
    known = constraints(labelled + others, labels=np.repeat([0, -1], [labelled, others]))
    drawn = draw(known, size, seed=seed)
    for kind, points in enumerate((np.arange(labelled), labelled + np.arange(others))):
        seen = [batch[kind] for batch in drawn]
        assert {len(one) for one in seen} == {min(size, len(points))}
        assert all(len(set(one.tolist())) == len(one) for one in seen)
        counts = np.bincount(np.concatenate(seen), minlength=labelled + others)[points]
        assert counts.size == 0 or counts.max() - counts.min() <= 2


@pytest.mark.parametrize("share", [0, 0.01, 0.1, 0.5, 0.9, 0.93, 0.95, 0.99, 1])
@pytest.mark.parametrize("size", [30, 200, 2000])
@pytest.mark.parametrize("uneven", [False, True])
def test_no_batch_has_more_of_a_class_than_its_bound(share: float, size: int, uneven: bool) -> None:
    classes = np.sort(np.arange(1200) % 4)
    if uneven:
        classes = np.maximum(classes - 1, 0)  # half of the points, and two quarters
    bound = 0.5 if uneven else 0.25
    known = constraints(1200, labels=some_labels(classes, share))
    told = int((known.labels >= 0).sum())
    for batch in draw(known, size, max_share=bound):
        counts = np.bincount(known.labels[batch.known], minlength=2)
        assert len(batch.known) == min(size, told)
        assert len(batch.others) == min(size, 1200 - told)
        # 1 / K of a batch is no whole number.
        assert not len(batch.others) or counts.max() <= bound * len(batch.points) + 1
        if told >= size:
            parts = size * np.bincount(known.labels[known.labels >= 0]) / told
            over = np.maximum(parts - bound * size, 0).sum()
            assert np.abs(counts - parts).max() <= over + 1


@settings(max_examples=12, deadline=None)
@given(
    labelled=st.integers(0, 40), pairs=st.integers(0, 400), size=st.integers(4, 60), seed=st.integers(0, 1000),
    spread=st.sampled_from([20, 150, 600]),
)  # fmt: skip
def test_links_never_push_labels_out_and_linked_points_have_partners(
    labelled: int, pairs: int, size: int, seed: int, spread: int
) -> None:
    """Pairs of few points hang together, pairs of many do not."""
    generator = np.random.default_rng(seed)
    classes = generator.integers(3, size=600)
    drawn = generator.integers(spread, size=(pairs, 2))
    drawn = drawn[drawn[:, 0] != drawn[:, 1]]
    same = classes[drawn[:, 0]] == classes[drawn[:, 1]]
    labels = np.where(np.arange(600) >= 600 - labelled, classes, -1)
    known = constraints(600, labels=labels, must_link=drawn[same], cannot_link=drawn[~same])
    told = np.flatnonzero(known.labels >= 0)
    linked = known.constrained & (known.labels < 0)
    apart = known.apart.toarray()
    for batch in draw(known, size, 5, seed):
        points = batch.known
        assert len(set(batch.points.tolist())) == len(batch.points) <= 2 * size
        assert np.isin(points, told).sum() == min(size, len(told))
        some = points[linked[points]]
        assert linked.any() <= len(some)
        groups = known.groups[points]
        for point in some:
            of_its = groups == known.groups[point]
            beside = apart[known.groups[point]][groups]
            only_labelled = not (np.bincount(known.groups)[known.groups[point]] > 1 or beside.any())
            if only_labelled:  # all that it is apart from are labels that this batch has no room for
                assert len(told) > size
            else:
                assert of_its.sum() > 1 or beside.any()
