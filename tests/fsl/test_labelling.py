"""Labelling a pile: its estimated accuracy, which points to label next, suspicious labels, smoothed features."""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import hypergeom
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score
from sklearn.utils.class_weight import compute_sample_weight

from clustering.foundation.errors import InputError
from clustering.graphs.low_pass import low_pass
from clustering.graphs.sparse_graph import SparseGraph
from fsl.extra.ridge import Labels, fit
from fsl.extra.smoothed_ridge import SmoothedRidge
from fsl.labelling.audit import EstimatedAccuracy, estimated_accuracy
from fsl.labelling.selection import Selection, next_to_label
from fsl.labelling.suspicious import suspicious_labels
from fsl.transductive_classifier import TransductiveClassifier
from tests.fsl.test_classifiers import partly, pile


def of_counts(right: int, size: int, population: int, confidence: float = 0.95) -> EstimatedAccuracy:
    return estimated_accuracy(np.arange(size) < right, population, confidence=confidence)


@st.composite
def audits(draw: st.DrawFn) -> tuple[int, int, int]:
    population = draw(st.integers(1, 120))
    size = draw(st.integers(1, population))
    return draw(st.integers(0, size)), size, population


@given(audit=audits(), confidence=st.sampled_from([0.5, 0.9, 0.95]))
def test_the_interval_holds_all_populations_that_no_test_rejects(
    audit: tuple[int, int, int], confidence: float
) -> None:
    right, size, population = audit
    kept = []
    for total in range(right, population - (size - right) + 1):
        X = hypergeom(population, total, size)
        as_observed = X.pmf(right) / 2
        fewer, more = X.cdf(right) - as_observed, X.sf(right) + as_observed
        if min(fewer, more) > (1 - confidence) / 2 + 1e-9:
            kept.append(total)
    found = of_counts(right, size, population, confidence)
    assert (round(found.low * population), round(found.high * population)) == (min(kept), max(kept))
    assert kept == list(range(min(kept), max(kept) + 1))


@pytest.mark.parametrize(
    ("right", "population", "confidence", "named"),
    [([], 5, 0.95, "audit"), ([2.0], 5, 0.95, "right"), ([1, 0], 1, 0.95, "population=1"), ([1], 3, 1.0, "confidence")],
)
def test_bad_audits_are_named(right: list[float], population: int, confidence: float, named: str) -> None:
    with pytest.raises(InputError, match=named):
        estimated_accuracy(right, population, confidence=confidence)


@given(audit=audits(), data=st.data())
def test_points_labelled_by_hand_are_counted_as_they_are(audit: tuple[int, int, int], data: st.DataObject) -> None:
    right, size, population = audit
    by_hand = data.draw(st.lists(st.booleans(), max_size=20))
    found = estimated_accuracy(np.arange(size) < right, population, by_hand=by_hand)
    sampled = of_counts(right, size, population + len(by_hand))
    for limit, of_sample in ((found.low, sampled.low), (found.high, sampled.high)):
        total = round(of_sample * (population + len(by_hand))) - sum(by_hand)
        assert round(limit * population) == min(max(total, right), population - (size - right))
    assert found.low <= found.accuracy + 1e-12
    assert found.accuracy <= found.high + 1e-12


METHODS = get_args(Selection)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labelled", [0, 1, 12, 118, 120])
def test_only_free_points_each_once(method, labelled):
    X, y = pile()
    classifier = TransductiveClassifier().prepare(X)
    if labelled:
        known = np.full(len(y), -1)
        known[:labelled] = y[:labelled]
        classifier.fit(X, known)
    exclude = [len(y) - 1]
    found = next_to_label(classifier, 10, method=method, exclude=exclude)
    assert len(found) == len(set(found)) == min(10, max(0, len(y) - labelled - (labelled < len(y))))
    assert not set(found) & {*range(labelled), *exclude}
    again = next_to_label(classifier, 10, method=method, exclude=exclude)
    np.testing.assert_array_equal(found, again)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 12))
def test_variance_is_greedy_over_exact_gains(seed, labelled):
    """The oracle inverts the matrix anew for each candidate, and measures the weighted variance itself."""
    X, y = pile(seed, points=40, dtype=np.float64)
    classifier = TransductiveClassifier().prepare(X)
    if labelled:
        classifier.fit(X, partly(y, labelled))
    level, penalty = classifier.chosen()
    F = classifier.smoothed().levels[level][0].numpy()
    rows = list(getattr(classifier, "labelled_", []))
    weights = np.ones(len(X))
    if labelled:
        spread = 1 - np.square(classifier.label_distributions_).sum(axis=1)
        weights = spread if spread.max() > 0 else weights
    weights[rows] = 0

    def left(points):
        inverse = np.linalg.inv(F[points].T @ F[points] + penalty * np.eye(F.shape[1]))
        return weights @ ((F @ inverse) * F).sum(axis=1)

    for point in next_to_label(classifier, 4):
        remaining = {q: left([*rows, q]) for q in range(len(X)) if q not in rows}
        assert remaining[point] <= min(remaining.values()) * (1 + 1e-6)
        rows.append(int(point))


def test_margin_asks_for_the_least_certain():
    X, y = pile()
    classifier = TransductiveClassifier().fit(X, partly(y, 12))
    probabilities = np.sort(classifier.label_distributions_, axis=1)
    margins = probabilities[:, -1] - probabilities[:, -2]
    chosen = next_to_label(classifier, 5, method="margin")
    others = np.setdiff1d(np.arange(len(y)), [*chosen, *classifier.labelled_])
    assert margins[chosen].max() <= margins[others].min()


def test_bad_requests():
    classifier = TransductiveClassifier().prepare(pile()[0])
    with pytest.raises(InputError, match="unknown selection method 'varience'"):
        next_to_label(classifier, 3, method="varience")
    for n in (0, 1.5):
        with pytest.raises(InputError, match=f"n must be an integer of at least 1, not {n}"):
            next_to_label(classifier, n)
    for wrong in ([120], np.ones(120, dtype=bool), [1.5]):
        with pytest.raises(InputError, match="exclude must be indices of the 120 points"):
            next_to_label(classifier, 3, exclude=wrong)
    with pytest.raises(InputError, match="smoothed_ridge needs at least two points"):
        TransductiveClassifier().prepare(np.ones((1, 3)))


def blobs(seed: int, *, size: int = 240, classes: int = 4) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, size)
    return random.normal(0, 1, (classes, 6))[labels] * 2 + random.normal(0, 1, (size, 6)), labels


def planted(seed: int, share: float = 0.5) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """Points, given labels (-1 unknown), and which of these are wrong."""
    X, truth = blobs(seed)
    random = np.random.default_rng(seed + 1000)
    given = np.where(random.random(len(X)) < share, truth, -1)
    wrong = (random.random(len(X)) < 0.1) & (given >= 0)
    return X, np.where(wrong, (given + 1) % 4, given), wrong


def test_planted_errors_are_found_with_honest_probabilities() -> None:
    expected = errors = 0.0
    for seed in range(5):
        X, given, wrong = planted(seed)
        found = suspicious_labels(TransductiveClassifier().fit(X, given))
        assert roc_auc_score(wrong[found.points], found.probability) > 0.9
        expected, errors = expected + found.probability.sum(), errors + wrong.sum()
    assert expected == pytest.approx(errors, rel=0.3)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), share=st.floats(0.1, 1))
def test_what_holds_of_any_labels(seed: int, share: float) -> None:
    X, given, _ = planted(seed, share)
    found = suspicious_labels(TransductiveClassifier().fit(X, given))
    assert sorted(found.points) == list(np.flatnonzero(given >= 0))
    assert (np.diff(found.probability) <= 0).all()
    assert ((found.probability >= 0) & (found.probability <= 1)).all()
    assert (found.suggested != given[found.points]).all()
    assert set(found.suggested) <= set(given[given >= 0])
    renamed = suspicious_labels(TransductiveClassifier().fit(3 * X, np.where(given >= 0, 10 - given, -1)))
    assert np.sort(renamed.probability) == pytest.approx(np.sort(found.probability), abs=2e-2)


def random_graph(generator, points, k=3):
    """A symmetric graph as arcs and as a dense matrix."""
    ends = np.stack([generator.permutation(np.delete(np.arange(points), i))[:k] for i in range(points)])
    weights = generator.uniform(0.1, 1, ends.shape)
    graph = SparseGraph.of_arcs(torch.from_numpy(ends)[None], torch.from_numpy(weights)[None], "union")
    dense = (graph @ torch.eye(points, dtype=torch.float64)[None])[0].numpy()
    return graph, dense


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(5, 30), st.sampled_from([0.0, 0.3, 0.9, 0.98]))
def test_low_pass_solves_the_system(seed, points, share):
    generator = np.random.default_rng(seed)
    graph, W = random_graph(generator, points)
    X = generator.normal(size=(points, 4))
    scale = 1 / np.sqrt(W.sum(axis=1))
    S = W * scale[:, None] * scale
    exact = (1 - share) * np.linalg.solve(np.eye(points) - share * S, X)
    found = low_pass(graph, torch.from_numpy(X)[None], (share, 0.0))
    np.testing.assert_allclose(found[0][0].numpy(), exact, atol=0.02 * np.linalg.norm(X, 2))
    np.testing.assert_array_equal(found[1][0].numpy(), X)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(2, 9), st.sampled_from([0.01, 0.3, 3.0]), st.booleans())
def test_left_out_predictions_are_those_of_refits(seed, labelled, dimension, penalty, balanced):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(labelled + 4, dimension))
    rows = generator.permutation(len(X))[:labelled]
    classes = generator.integers(0, 3, labelled)
    one_hot = np.eye(3)[classes]
    labels = Labels(torch.from_numpy(rows)[None], torch.from_numpy(one_hot)[None])
    found = fit([torch.from_numpy(X)[None]], labels, (penalty,), default=(0, 0), balanced=(balanced,))
    A, Y = X[rows], one_hot - 1 / 3
    weights = compute_sample_weight("balanced" if balanced else None, classes)

    def refit(kept):
        W = A[kept].T * weights[kept]
        return np.linalg.solve(W @ A[kept] + penalty * np.eye(dimension), W @ Y[kept])

    np.testing.assert_allclose(found.coefficients[0].numpy(), refit(np.arange(labelled)), atol=1e-8)
    for i in range(labelled):
        logits = 12.0 * (A[i] @ refit(np.delete(np.arange(labelled), i)))
        expected = np.exp(logits - logits.max())
        np.testing.assert_allclose(found.left_out[0, i].exp().numpy(), expected / expected.sum(), atol=1e-6)


def test_settings_are_chosen_by_the_labels(monkeypatch):
    """Classes that are long bands need smoothing; classes by a single coordinate among noise do not."""
    generator = np.random.default_rng(0)
    along = generator.uniform(0, 3, 600)
    band = generator.integers(0, 2, 600)
    spiral = np.c_[np.cos(along * 2 + np.pi * band), np.sin(along * 2 + np.pi * band)] * (1 + along[:, None])
    rows = generator.permutation(600)[:300]
    monkeypatch.setattr("fsl.extra.smoothed_ridge.FEW", 0)
    strategy = SmoothedRidge(transform="UN")
    for X, y, smooth in ((spiral, band, True), (generator.normal(size=(600, 20)), None, False)):
        y = (X[:, 0] > 0).astype(int) if y is None else y
        points = strategy.prepare(torch.from_numpy(X))
        labels = Labels(torch.from_numpy(rows)[None], torch.eye(2, dtype=torch.float64)[y[rows]][None])
        ridge, _ = strategy.fitted(points, labels, None)
        assert (points.smoothings[int(ridge.level[0])] >= 0.9) == smooth


@pytest.mark.parametrize("shots", [2, 5, 20])
def test_equally_many_labels_of_unequal_classes(shots):
    """Without an intercept, large classes lose most of their points to small ones."""
    X, y = make_blobs([1000, 300, 100, 30, 30], 20, cluster_std=4, random_state=0)
    generator = np.random.default_rng(0)
    labels = np.full(len(y), -1)
    for k in range(5):
        labels[generator.permutation(np.flatnonzero(y == k))[:shots]] = k
    rest = labels < 0
    found = TransductiveClassifier().fit(X, labels).transduction_
    assert (found == y)[rest].mean() > 0.98


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_the_settings_of_a_task_do_not_depend_on_the_others(seed):
    generator = np.random.default_rng(seed)
    levels = [torch.from_numpy(generator.normal(size=(8, 12, 5))) for _ in range(3)]
    one_hot = torch.eye(3, dtype=torch.float64)[torch.arange(12) % 3].expand(8, -1, -1)
    one_hot = one_hot * torch.from_numpy(generator.random((8, 12, 1)) < 0.7)  # classes have unequal numbers of labels
    rows = torch.arange(12).expand(8, -1)
    options = {"default": (1, 0), "sharpnesses": (6.0, 12.0), "balanced": (False, True)}
    together = fit(levels, Labels(rows, one_hot), (0.1, 1.0), **options)
    for i in range(8):
        alone = fit([level[i : i + 1] for level in levels], Labels(rows[:1], one_hot[i : i + 1]), (0.1, 1.0), **options)
        for ours, its in zip(together, alone, strict=True):
            torch.testing.assert_close(ours[i], its[0])
