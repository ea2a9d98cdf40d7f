"""Estimators of linear heads: planted clusters, priors, two encoders, what changes nothing, what is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from clustering.deep import OBJECTIVES, TURTLE, EntropyClustering, SoftmaxClustering
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from clustering.metrics import accuracy, ari


def blobs(sizes: tuple[int, ...] = (60, 60, 60), features: int = 5) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    noise = stream(0, "entropy blobs").normal(size=(len(labels), features))
    return 7 * np.eye(len(sizes), features)[labels] + noise, labels


@pytest.mark.parametrize("solver", ["em", "exact"])
def test_isotropic_blobs_are_split_as_by_k_means(solver: Any) -> None:
    """E2, first half: on round clusters of one size the two agree."""
    X, truth = blobs()
    found = EntropyClustering(3, solver=solver, n_init=4, max_iter=150, random_state=0).fit(X)
    assert ari(found.labels_, KMeans(3, n_init=5, random_state=0).fit_predict(X)) > 0.98
    assert accuracy(truth, found.labels_) > 0.98
    assert np.array_equal(found.predict(X), found.labels_)
    np.testing.assert_allclose(found.predict_proba(X).sum(1), 1)
    np.testing.assert_allclose(np.exp(found.transform(X)), found.predict_proba(X))
    assert found.cluster_sizes_.sum() == len(X)
    assert found.start_objectives_.shape == (4,)
    assert found.objective_ == found.start_objectives_.min()


def test_shift_and_scale_change_nothing() -> None:
    X, _ = blobs()
    settings = {"n_clusters": 3, "n_init": 1, "max_iter": 40, "random_state": 1}
    one, other = (EntropyClustering(**settings).fit(points) for points in (X, 100 * X - 40))
    assert np.array_equal(one.labels_, other.labels_)
    np.testing.assert_allclose(one.coef_, 100 * other.coef_, rtol=1e-5, atol=1e-8)
    assert one.objective_ == pytest.approx(other.objective_)


@pytest.mark.parametrize("objective", [name for name in OBJECTIVES.table if name != "iic"])
@pytest.mark.parametrize("setting", [{"learning_rate": 1e30}, {"init_norm": 1e30}])
def test_a_training_that_diverges_is_no_result(objective: str, setting: dict[str, float]) -> None:
    X, labels = blobs()
    with pytest.raises(InputError, match=r"step \d+ of 20; .*learning_rate"):
        SoftmaxClustering(3, objective=objective, max_iter=20, **setting).fit(np.float32(X), partial_labels=labels)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prior": "even"}, "prior .*3 numbers"),
        ({"prior": [1e-300, 1, 1]}, "prior"),
        ({"prior": [1, 2]}, "prior .*3 numbers"),
        ({"prior": [1, -1, 1]}, "prior .*3 numbers"),
        ({"prior": [1, np.nan, 1]}, "prior .*3 numbers"),
        ({"learning_rate": 1e300}, r"learning_rate .*1e\+30"),
        ({"fairness_weight": -1}, "fairness_weight"),
        ({"solver": "newton"}, "solver"),
        ({"n_clusters": 500}, "n_samples=180 .*n_clusters=500"),
    ],
)
def test_what_cannot_be(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        EntropyClustering(**{"n_clusters": 3, **parameters}).fit(blobs()[0])


@pytest.mark.parametrize("name", [name for name in OBJECTIVES.table if name != "iic"])
def test_a_start_alone_is_that_start_among_others(name: str) -> None:
    """Of every objective that needs no second view."""
    X, labels = blobs()
    known = np.where(np.arange(len(labels)) % 6 == 0, labels, -1)
    options: dict[str, Any] = {"objective": name, "max_iter": 5, "batch_size": 50, "init_norm": 1.0, "random_state": 4}
    together = SoftmaxClustering(3, n_init=3, **options).fit(X + np.arange(5), partial_labels=known)
    alone = SoftmaxClustering(3, n_init=1, **options).fit(X + np.arange(5), partial_labels=known)
    np.testing.assert_allclose(together.start_objectives_[:1], alone.start_objectives_)
    assert together.start_objectives_[0] != pytest.approx(together.start_objectives_[1], rel=1e-6)


def spaces() -> tuple[np.ndarray, np.ndarray]:
    """Four classes; one encoder does not tell the last two apart, and the other one, in other units, the first two."""
    y = np.arange(120) % 4
    noise = np.random.default_rng(0).normal(size=(120, 7))
    means = np.hstack([np.eye(3)[[0, 1, 2, 2]], np.eye(4)[[0, 0, 1, 2]]])
    return (8 * means[y] + noise) * np.repeat([1, 50], [3, 4]), y


def quick(**options: object) -> TURTLE:
    return TURTLE(4, **{"n_init": 2, "max_iter": 80, "learning_rate": 0.03, "random_state": 0, **options})


def test_the_objective_is_that_of_classifiers_trained_one_by_one() -> None:
    random = torch.Generator().manual_seed(1)
    standard = [torch.randn(9, d, generator=random, dtype=torch.float64) for d in (3, 4)]
    heads = [torch.randn(2, 4, d, generator=random, dtype=torch.float64) for d in (3, 4)]
    found, _ = quick(entropy_weight=2.0)._objectives(standard, heads)
    for start in range(2):
        each = [torch.softmax(x @ w[start].T, dim=1) for x, w in zip(standard, heads, strict=True)]
        labels, expected = sum(each) / 2, 0.0
        for x, tau in zip(standard, each, strict=True):
            classifier = torch.zeros(4, x.shape[1], dtype=torch.float64, requires_grad=True)
            adam = torch.optim.Adam([classifier], lr=0.01)
            for _ in range(3):
                adam.zero_grad()
                torch.nn.functional.cross_entropy(x @ classifier.T, labels).backward()
                adam.step()
            expected += float(torch.nn.functional.cross_entropy(x @ classifier.detach().T, labels))
            shares = tau.mean(dim=0)
            expected += 2 * float((shares * (4 * shares).log()).sum())
        assert float(found[start]) == pytest.approx(expected, rel=1e-6)


def test_two_encoders_find_together_what_neither_finds_alone() -> None:
    X, y = spaces()
    both = quick(blocks=[3, 4]).fit(X)
    assert accuracy(y, both.labels_) > 0.95
    assert max(accuracy(y, quick().fit(part).labels_) for part in (X[:, :3], X[:, 3:])) < 0.8
    assert both.intercept_.shape == (2, 4)
    assert both.objective_ == both.start_objectives_.min()


@settings(max_examples=5, deadline=None)
@given(scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
def test_unit_and_origin_of_an_encoder_change_nothing(scale: float, shift: float) -> None:
    X, _ = spaces()
    other = np.hstack([X[:, :3], scale * X[:, 3:] + shift])
    one, same = (quick(blocks=[3, 4], max_iter=10).fit(points) for points in (X, other))
    assert np.array_equal(one.labels_, same.labels_)
    np.testing.assert_allclose(one.predict_proba(X), same.predict_proba(other), atol=1e-6)


def test_the_score_prefers_the_planted_labelling_and_is_0_for_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = spaces()
    model = quick(blocks=[3, 4]).fit(X)
    scores = []
    for labels in (y, np.random.default_rng(0).permutation(y), 0 * y):
        monkeypatch.setattr(model, "predict", lambda _, labels=labels: labels)
        scores.append(model.score(X))
    assert scores[0] > 0.7 > 0.4 > scores[1] > scores[2] == 0


def test_blocks_that_are_not_those_of_the_columns_are_refused() -> None:
    with pytest.raises(InputError, match=r"blocks=\[3, 3\] are 6 columns, and X has 7"):
        quick(blocks=[3, 3]).fit(spaces()[0])


def test_a_training_that_diverges_of_two_encoders_is_no_result() -> None:
    with pytest.raises(InputError, match="training diverged; lower learning_rate"):
        quick(learning_rate=1e30, max_iter=5).fit(np.float32(spaces()[0]))
