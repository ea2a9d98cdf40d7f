"""The estimator: planted clusters, priors, known labels, what is said."""

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from clustering.deep import OBJECTIVES, EntropyClustering, SoftmaxClustering
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


def test_known_labels_are_kept_and_name_the_clusters() -> None:
    X, truth = blobs()
    known = np.where(np.arange(len(truth)) % 6 == 0, truth, -1)
    known[0] = 2  # wrong on purpose
    found = EntropyClustering(3, n_init=1, max_iter=150, random_state=0).fit(X, partial_labels=known)
    assert found.labels_[0] == 2
    assert (found.labels_ == truth).mean() > 0.97


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
