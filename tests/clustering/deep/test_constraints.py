"""Labels and links: what follows from them, batches that keep them, and training that obeys them."""

from itertools import combinations, islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.constraints import Constraints, check_room, constraints
from clustering.deep.xsdc.assignments import constrained_labels
from clustering.deep.xsdc.batches import Batch, batches
from clustering.deep.xsdc.discriminative import normalised_features, ridge_objective
from clustering.deep.xsdc.networks import LinearMap
from clustering.deep.xsdc.reversal import Reversal, Solver, raw_features
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


TOY_NOISE = 30


def toy(seed: int, separation: float = 4.0) -> tuple[torch.Tensor, NDArray[np.int64]]:
    """300 points of 3 clusters in five dimensions, and thirty dimensions of nothing but noise."""
    generator = np.random.default_rng(seed)
    classes = np.arange(300) % 3
    centres = separation * np.linalg.qr(generator.normal(size=(5, 5)))[0][:3]
    values = generator.normal(size=(300, 5 + TOY_NOISE))
    values[:, :5] += centres[classes]
    return torch.from_numpy(values), classes


def training(inputs: torch.Tensor, labels: NDArray[np.int64] | None = None, **kwargs: Any) -> Reversal:
    network = LinearMap(inputs.shape[1], 6).double()
    network.begin(inputs, np.random.default_rng(0))
    known = constraints(len(inputs), labels=labels)
    return Reversal(network, inputs, known, 3, (1 / 3, 1 / 3), solver=Solver(batch_size=300), **kwargs)


def test_with_all_labels_it_is_the_loss_of_the_classes() -> None:
    """Balancing leaves M = Y Y^T as it is, and a step with it is a step without."""
    inputs, classes = toy(0)
    moved = []
    for kind in ("supervised", "assigned"):
        trained = training(inputs, classes)
        features = normalised_features(raw_features(trained.network, inputs))
        before = ridge_objective(features, trained.targets(np.arange(300)), 0.1)
        steps = trained.steps(kind, 0.1, trained.network.optimizer(0.1), np.random.default_rng(0))
        first = next(steps)
        assert first.residual == 0
        assert first.objective == pytest.approx(float(before))
        moved.append([trained.network.weights.detach().clone(), *(step.objective for step in islice(steps, 30))])
    torch.testing.assert_close(moved[0][0], moved[1][0])
    assert moved[0][-1] < 0.5 * moved[0][1]


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), labelled=st.floats(0, 0.3), linked=st.floats(0, 0.2), clusters=st.integers(2, 4))
def test_labels_obey_what_is_known(seed: int, labelled: float, linked: float, clusters: int) -> None:
    generator = np.random.default_rng(seed)
    classes = generator.integers(clusters, size=25)
    labels = np.where(generator.random(25) < labelled, classes, -1)
    drawn = np.array([(i, j) for i in range(25) for j in range(i) if generator.random() < linked], dtype=int)
    drawn = drawn.reshape(-1, 2)
    same = classes[drawn[:, 0]] == classes[drawn[:, 1]]
    known = constraints(25, labels=labels, must_link=drawn[same], cannot_link=drawn[~same])
    scores = generator.normal(size=(25, clusters))
    found = constrained_labels(scores, known)
    told = known.labels >= 0
    assert (found[told] == known.labels[told]).all()
    assert all(found[i] == found[j] for i, j in drawn[same])
    apart = known.apart.toarray()
    for i, j in drawn[~same]:
        one, other = known.groups[i], known.groups[j]
        if max(apart[one].sum(), apart[other].sum()) < clusters:  # something is left for both
            assert found[i] != found[j]
    alone = (np.bincount(known.groups)[known.groups] == 1) & ~apart.any(axis=1)[known.groups] & ~told
    assert (found[alone] == scores[alone].argmax(axis=1)).all()
