"""XSDC: any share of labels, links and sizes, what was learned, interruptions, and input that cannot be."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from clustering.deep import XSDC
from clustering.deep.xsdc.reversal import Solver
from clustering.foundation.errors import InputError
from clustering.methods import arranged
from clustering.metrics import accuracy


def blobs(seed: int = 0, points: int = 150, spread: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Three clusters in five dimensions, and ten dimensions of noise."""
    generator = np.random.default_rng(seed)
    classes = np.arange(points) % 3
    values = spread * generator.normal(size=(points, 15))
    values[:, :3] += 5 * np.eye(3)[classes]
    return values, classes


def partly(classes: NDArray[np.int64], each: int) -> NDArray[np.int64]:
    """Labels of the first points of each class, -1 of the others."""
    return np.where(np.arange(len(classes)) < 3 * each, classes, -1)


def small(**kwargs: Any) -> XSDC:
    """With settings of the solver among the others."""
    solver = {name: kwargs.pop(name) for name in list(kwargs) if name in Solver.__annotations__}
    settings = {"n_clusters": 3, "n_features": 6, "supervised_steps": 20, "random_state": 0}
    return XSDC(**(settings | kwargs), solver=solver or None)


@pytest.mark.parametrize("each", [0, 2, 50])
def test_any_share_of_labels(each: int) -> None:
    X, classes = blobs()
    labels = partly(classes, each)
    model = small().fit(X, partial_labels=labels)
    assert accuracy(classes, model.labels_) > 0.95
    if each:  # clusters have the names of their labels
        assert (model.labels_ == classes).mean() > 0.95
        assert (model.labels_[labels >= 0] == labels[labels >= 0]).all()
    fresh, truth = blobs(1)
    assert accuracy(truth, model.predict(fresh)) > 0.9
    assert model.cluster_sizes_.tolist() == np.bincount(model.labels_, minlength=3).tolist()
    assert len(model.trace_) == len(model.residuals_) == model.n_iter_
    assert model.transform(fresh).shape == (150, 6)
    assert model.get_feature_names_out().tolist() == [f"xsdc{i}" for i in range(6)]  # so that set_output works


def test_links_instead_of_labels() -> None:
    """Correct links of every third pair of some points help where clusters overlap."""
    X, classes = blobs(2, spread=2.5)
    generator = np.random.default_rng(0)
    pairs = np.array([(i, j) for i in range(90) for j in range(i) if generator.random() < 1 / 3])
    same = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    alone = small().fit(X)
    linked = small().fit(X, must_link=pairs[same], cannot_link=pairs[~same])
    assert accuracy(classes, linked.labels_) > accuracy(classes, alone.labels_)


def test_coarse_labels_keep_clusters_apart() -> None:
    """Labels name the clusters, and of every point it is known whether it is of the first."""
    X, classes = blobs(2, spread=2.5)
    labels, coarse = partly(classes, 4), (classes == 0).astype(int)
    alone = small(steps=20).fit(X, partial_labels=labels)
    told = small(steps=20).fit(X, partial_labels=labels, coarse_labels=coarse)
    assert ((alone.labels_ == 0) != (classes == 0)).any()
    np.testing.assert_array_equal(told.labels_ == 0, classes == 0)
    assert not np.array_equal(alone.transform(X), told.transform(X)), "features are learned with them, too"
    half = np.where(np.arange(150) % 2, coarse, -1)
    some = small(steps=20).fit(X, partial_labels=labels, coarse_labels=half)
    np.testing.assert_array_equal((some.labels_ == 0)[1::2], (classes == 0)[1::2])
    # Where no label names the clusters, they are all that is known.
    without = small(steps=20).fit(X, coarse_labels=coarse)
    assert accuracy(classes, without.labels_) > accuracy(classes, small(steps=20).fit(X).labels_)


@pytest.mark.parametrize("representation", ["linear", "kernel", "perceptron", "lenet5"])
def test_what_was_learned_is_taken_over(representation: str) -> None:
    X, classes = pictures(0)
    settings = {"representation": representation, "supervised_steps": 3, "steps": 3}
    model = small(**settings).fit(X, partial_labels=partly(classes, 5))
    fresh, _ = pictures(1)
    again = small(**settings).with_weights(model.weights())
    assert np.array_equal(again.predict_proba(fresh), model.predict_proba(fresh))
    assert np.array_equal(again.transform(fresh), model.transform(fresh))
    for other, said in (
        ({"n_features": 5}, "representation=.*n_features=5"),
        ({"representation": "kernel" if representation == "linear" else "linear"}, "representation="),
        ({"n_clusters": 2}, "3 clusters.*n_clusters=2"),
    ):
        with pytest.raises(InputError, match=said):
            small(**(settings | other)).with_weights(model.weights())


def pictures(seed: int, points: int = 60) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Bars of 12 x 12 pixels, upright, lying or slanting, at random places."""
    generator = np.random.default_rng(seed)
    classes = np.arange(points) % 3
    found = 0.1 * generator.random((points, 12, 12), dtype=np.float32)
    for picture, kind, place in zip(found, classes, generator.integers(2, 9, size=points), strict=True):
        bar = np.arange(12)
        down, right = [(bar, np.full(12, place)), (np.full(12, place), bar), (bar, (bar + place) % 12)][kind]
        picture[down, right] = 1
    return found.reshape(points, 144), classes


def test_labels_of_every_cluster_take_the_place_of_sizes() -> None:
    """Clusters of 5 to 1: labels that are pseudo follow them, balanced ones do not; bounds are balanced with."""
    X, classes = blobs(points=540, spread=2.0)
    kept = (classes == 0) | (np.arange(540) % 15 < 3)
    X, classes = X[kept], classes[kept]
    labels = np.full(len(X), -1)
    for c in range(3):
        labels[np.flatnonzero(classes == c)[:6]] = c
    auto, same, balanced = (
        small(assignment=one).fit(X, partial_labels=labels) for one in ("auto", "pseudo_labels", "balancing")
    )
    assert np.array_equal(auto.trace_, same.trace_)
    assert auto.size_bounds_.tolist() == [0, 1]
    assert not auto.residuals_.any()
    assert (auto.labels_ == classes).mean() > (balanced.labels_ == classes).mean()
    one, other = (
        small(assignment=one, min_share=0.1, max_share=0.8, steps=5).fit(X, partial_labels=labels)
        for one in ("auto", "balancing")
    )
    assert np.array_equal(one.trace_, other.trace_)
    some = np.where(labels == 2, -1, labels)
    with pytest.warns(UserWarning, match="only some of the 3 clusters have labels.*min_share and max_share"):
        one, other = (small(assignment=one, steps=5).fit(X, partial_labels=some) for one in ("auto", "balancing"))
    assert np.array_equal(one.trace_, other.trace_)


def test_steps_that_gain_nothing_are_taken_back(tmp_path: Path) -> None:
    """Features are then those of the supervised steps alone, also after an interruption, but where it was asked for."""
    X, classes = blobs(spread=2.0)
    labels, tiny = partly(classes, 4), {"steps": 20, "step_size": 1e-9, "supervised_step_size": 0.1}
    alone = small(steps=0, supervised_step_size=0.1).fit(X, partial_labels=labels)
    back = small(**tiny).fit(X, partial_labels=labels, folder=tmp_path)
    again = small(**tiny).fit(X, partial_labels=labels, folder=tmp_path)
    for one in (back, again):
        assert not one.steps_kept_
        assert np.array_equal(one.transform(X), alone.transform(X))
        assert np.array_equal(one.predict_proba(X), alone.predict_proba(X))
    asked = small(assignment="pseudo_labels", **tiny).fit(X, partial_labels=labels)
    assert asked.steps_kept_
    assert not np.array_equal(asked.transform(X), alone.transform(X))
    assert small(steps=20).fit(X, partial_labels=labels).steps_kept_


@pytest.mark.parametrize("size", [40, 1024])
def test_sizes_that_labels_leave_no_room_for_are_said_before_training(size: int) -> None:
    X, _ = blobs()
    rows = np.arange(150)
    steps: list[int] = []

    def count(n: int = 1, **numbers: float) -> None:
        steps.append(n)

    with pytest.raises(InputError, match=r"60 of 150 points .*max_share"):
        small(batch_size=size, max_share=0.35).fit(X, partial_labels=np.where(rows < 60, 0, -1), advance=count)
    labels = np.where(rows < 147, rows % 2, -1)
    with pytest.raises(InputError, match=r"cluster 2 .*0 of 150 points, .*15: lower min_share"):
        small(batch_size=size, min_share=0.1, max_share=0.6).fit(X, partial_labels=labels, advance=count)
    assert not steps


def test_pairs_apart_that_clusters_do_not_allow_are_said() -> None:
    X, _ = blobs()
    clique = list(combinations(range(4), 2))
    with pytest.warns(ConvergenceWarning, match="1 of the cannot-link"):
        small(steps=2).fit(X, cannot_link=clique)
    with pytest.raises(InputError, match=r"cannot_link .*point 3 .*3 clusters"):
        small(steps=2).fit(X, partial_labels=[0, 1, 2] + 147 * [-1], cannot_link=clique)


@pytest.mark.parametrize(
    ("settings", "given", "said"),
    [
        ({"min_share": 0.1, "max_share": 0.3}, {}, r"min_share=0\.1 .*max_share=0\.3 "),
        ({"representation": "resnet"}, {}, "representation .*linear, .*lenet5"),
        ({"representation": "lenet5"}, {}, "lenet5 .*colour=grey"),
        ({"representation": "ckn_gm"}, {}, "ckn_gm .*6 x 6 .*15 columns"),
        ({"max_share": 0.5, "assignment": "eigenvectors"}, {}, "assignment=eigenvectors"),
        ({"deep_clusters": 30}, {}, "deep_clusters=30 .*assignment=deep_clustering"),
        ({"deep_clusters": 151, "assignment": "deep_clustering"}, {}, "deep_clusters=151 .*n_samples=150"),
        ({"n_clusters": 9, "assignment": "eigenvectors_kmeans"}, {}, "9 clusters need 8 features"),
        (
            {"assignment": "pseudo_labels"},
            {"partial_labels": np.arange(150) % 3 - 1},
            "assignment=pseudo_labels needs labels of every cluster",
        ),
        ({"penalty": 0.0}, {}, "penalty"),
        ({"copies": 0}, {}, "Solver: copies must be an integer at least 1, not 0"),
        ({}, {"partial_labels": np.full(150, 3)}, r"partial_labels .*0\.\.2"),
        ({"max_share": 0.35}, {"must_link": [(0, i) for i in range(1, 60)]}, "max_share"),
    ],
)
def test_what_cannot_be_is_named(settings: dict[str, Any], given: dict[str, Any], said: str) -> None:
    X, _ = blobs()
    with pytest.raises(InputError, match=said):
        small(**settings).fit(X, **given)


def test_a_setting_of_the_solver_that_is_not_there_is_named() -> None:
    X, _ = blobs()
    with pytest.raises(InputError, match=r"setting of solver .*bath_size.*did you mean 'batch_size'"):
        XSDC(3, solver={"bath_size": 10}).fit(X)


def test_settings_of_the_solver_are_set_by_their_names() -> None:
    model = XSDC(3, solver={"copies": 4})
    assert arranged(model, {"steps": 3, "decay": 0.1}) == {"steps": 3, "solver": {"copies": 4, "decay": 0.1}}
    assert arranged(model, {"copies": 1}) == {"solver": None}
    assert arranged(XSDC, {"batch_size": 7}) == {"solver": {"batch_size": 7}}
