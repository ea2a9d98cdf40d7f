"""XSDC: scikit-learn's contract, any share of labels, links and sizes. What cannot be: test_xsdc_input.py."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import check_estimator

from clustering.deep import XSDC
from clustering.deep.xsdc import final_classifier
from clustering.deep.xsdc.discriminative import ridge_objective
from clustering.deep.xsdc.networks import LinearMap, Perceptron
from clustering.foundation.errors import InputError
from clustering.metrics import accuracy, cluster_sizes


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
    return XSDC(**({"n_clusters": 3, "n_features": 6, "supervised_steps": 20, "random_state": 0} | kwargs))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API.*")  # what this process was not started with is skipped
@pytest.mark.filterwarnings("ignore:y is ignored")
def test_scikit_learns_contract_with_another_network() -> None:
    """That with its defaults is in test_estimators.py, as of every method."""
    check_estimator(XSDC(n_clusters=3, representation="kernel", n_features=4, rounds=3, steps=4))


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
    assert model.cluster_sizes_.tolist() == cluster_sizes(model.labels_, 3).tolist()
    assert len(model.trace_) == len(model.residuals_) == model.n_iter_
    assert model.transform(fresh).shape == (150, 6)
    assert model.get_feature_names_out().tolist() == [f"xsdc{i}" for i in range(6)]  # so that set_output works


@pytest.mark.parametrize("each", [0, 2])
@pytest.mark.parametrize(
    "rule",
    [
        {"assignment": "eigenvectors_kmeans"},
        {"assignment": "deep_clustering"},
        {"assignment": "deep_clustering", "deep_clusters": 6, "deep_steps": 4},
    ],
)
def test_labels_of_k_means(each: int, rule: dict[str, Any]) -> None:
    X, classes = blobs()
    labels = partly(classes, each)
    model = small(steps=10, batch_size=60, **rule).fit(X, partial_labels=labels)
    assert accuracy(classes, model.labels_) > 0.9
    assert (model.labels_[labels >= 0] == labels[labels >= 0]).all()
    again = small(steps=10, batch_size=60, **rule).fit(X, partial_labels=labels)
    assert np.array_equal(model.transform(X), again.transform(X))
    assert model.equal_sizes_unless == ""
    assert np.isnan(model.eigengaps_).sum() == (20 if each else 0)


def test_probabilities_are_distributions_and_agree_with_predictions() -> None:
    X, classes = blobs(spread=2.0)
    model = small().fit(X, partial_labels=partly(classes, 5))
    P = model.predict_proba(X)
    assert P.min() >= 0
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-9)
    assert (P.argmax(axis=1) == model.predict(X)).all()
    assert ((P > 0.01) & (P < 0.99)).any()
    # Of scores that are no distribution, the nearest one.
    scores = model._scores(X).numpy()
    away = scores.min(axis=1) >= 0
    np.testing.assert_allclose(P[away], scores[away], atol=1e-9)


def test_the_same_seed_gives_the_same_and_another_not() -> None:
    X, classes = blobs(spread=2.0)
    first, again, other = (
        small(steps=10, random_state=seed).fit(X, partial_labels=partly(classes, 2)) for seed in (0, 0, 1)
    )
    assert np.array_equal(first.transform(X), again.transform(X))
    assert not np.array_equal(first.transform(X), other.transform(X))
    assert first.objective_ == again.objective_


def test_fits_are_chosen_among_at_one_penalty() -> None:
    """The penalty that labels choose differs by seed, and with it the objective."""
    X, classes = blobs(spread=2.0)
    labels = partly(classes, 4)
    for given, among in ((None, 0.1), (0.02, 0.02)):
        model = small(penalty=given, steps=10, classifier="nearest").fit(X, partial_labels=labels)
        features, one_hot = torch.from_numpy(model.transform(X)), torch.eye(3)[model.labels_]
        assert model.objective_ == pytest.approx(float(ridge_objective(features, one_hot, model.penalty_)))
        assert model.criterion_ == pytest.approx(float(ridge_objective(features, one_hot, among)))
        assert (model.penalty_ == among) == (given is not None)
    alone = small(steps=10).fit(X)
    assert alone.criterion_ == alone.objective_


def test_single_and_double_precision() -> None:
    X, classes = blobs()
    found = [
        small(steps=20).fit(X.astype(dtype), partial_labels=partly(classes, 4)) for dtype in (np.float32, np.float64)
    ]
    assert found[0].transform(X).dtype == np.float32
    assert (found[0].labels_ == found[1].labels_).mean() > 0.98


def test_shifted_and_scaled_points_are_the_same_to_it() -> None:
    X, classes = blobs()
    one, other = (
        small(representation="kernel", steps=20).fit(x, partial_labels=partly(classes, 4)) for x in (X, 1000 + 7 * X)
    )
    assert (one.labels_ == other.labels_).mean() > 0.98


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


def test_a_cluster_without_labels_is_found_beside_the_labelled_ones() -> None:
    X, classes = blobs()
    labels = np.where(classes == 2, -1, partly(classes, 4))
    with pytest.warns(UserWarning, match="only some of the 3 clusters have labels"):
        model = small().fit(X, partial_labels=labels)
    assert (model.labels_ == classes).mean() > 0.95


def test_bounds_on_sizes_take_the_place_of_equal_ones() -> None:
    """Two clusters of three quarters and a quarter: equal sizes tear the large one."""
    X, classes = blobs(points=240)
    kept = (classes == 0) | ((classes == 1) & (np.arange(240) % 9 < 3))
    X, classes = X[kept], classes[kept]
    share = (classes == 1).mean()
    bounded = small(n_clusters=2, min_share=share, max_share=1 - share, random_state=1).fit(X)
    np.testing.assert_allclose(bounded.size_bounds_, [share, 1 - share])
    assert small(n_clusters=2, steps=1).fit(X).size_bounds_.tolist() == [0.5, 0.5]
    assert accuracy(classes, bounded.labels_) > 0.9


def test_a_network_of_ones_own_is_copied() -> None:
    X, classes = blobs()
    own = LinearMap(15, 4)
    model = small(representation=own, step_size=0.05).fit(X, partial_labels=partly(classes, 4))
    assert model.network_ is not own
    assert not bool(own.weights.any())
    assert model.transform(X).shape == (150, 4)
    assert clone(model).representation is not model.network_


def test_a_network_of_ones_own_says_its_usual_step() -> None:
    X, _ = blobs()

    class Slow(Perceptron):
        usual_step = 1e-4

    kept = [small(representation=Perceptron(15), step_size=size, steps=5).fit(X) for size in (None, 1e-3)]
    slow = small(representation=Slow(15), steps=5).fit(X)
    assert np.array_equal(kept[0].trace_, kept[1].trace_)
    assert not np.array_equal(kept[0].trace_, slow.trace_)
    with pytest.raises(InputError, match=r"Linear .*begin, optimizer, usual_step"):
        small(representation=torch.nn.Linear(15, 4)).fit(X)


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


def test_pictures() -> None:
    """Grey values are shifted alike: what is black stays so."""
    X, classes = pictures(0)
    model = small(representation="lenet5", supervised_steps=10, steps=10, step_size=0.05)
    model.fit(X, partial_labels=partly(classes, 5))
    assert (model.labels_ == classes).mean() > 0.6
    fresh, truth = pictures(1)
    assert (model.predict(fresh) == truth).mean() > 0.6
    assert model.transform(fresh).shape == (60, 6)
    assert np.isfinite(model.trace_).all()


def test_colour_pictures() -> None:
    """Bars in the green channel of colour pictures, noise in the others."""
    grey, classes = pictures(0)
    noise = np.random.default_rng(1).random((60, 2, 144), dtype=np.float32)
    X = np.concatenate([noise[:, :1], grey[:, None], noise[:, 1:]], axis=1).reshape(60, -1)
    settings = {"representation": "ckn_gm", "supervised_steps": 5, "steps": 5}
    model = small(**settings, n_features=8).fit(X, partial_labels=partly(classes, 5))
    assert (model.labels_ == classes).mean() > 0.6
    assert model.transform(X).shape == (60, 8)
    shuffled = np.concatenate([noise[::-1, :1], grey[:, None], noise[::-1, 1:]], axis=1).reshape(60, -1)
    np.testing.assert_allclose(model.transform(shuffled), model.transform(X), atol=1e-5)
    with pytest.raises(InputError, match=r"20 x 20, .*multiple of 4, not 9"):
        small(**settings, n_features=9).fit(np.zeros((12, 1200)))


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    X, classes = blobs(spread=2.0)
    labels = partly(classes, 4)

    class Stopped(Exception):
        pass

    def stop(n: int = 1, **numbers: float) -> None:
        counts.append(n)
        if sum(counts) == 50:
            raise Stopped

    counts: list[int] = []
    with pytest.raises(Stopped):
        small().fit(X, partial_labels=labels, folder=tmp_path, advance=stop)
    again = small().fit(X, partial_labels=labels, folder=tmp_path)
    whole = small().fit(X, partial_labels=labels)
    assert np.array_equal(again.trace_, whole.trace_)
    assert np.array_equal(again.predict_proba(X), whole.predict_proba(X))
    with pytest.raises(InputError, match="another training"):
        small(random_state=1).fit(X, partial_labels=labels, folder=tmp_path)


@pytest.mark.filterwarnings("ignore:.*are known to be in one cluster:UserWarning")
@pytest.mark.parametrize(
    "share", [0.01, 0.5, 0.95, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.1, 0.9, 0.93, 0.99))]
)
@pytest.mark.parametrize("size", [30, 1024])
@pytest.mark.parametrize("numbers", [(100, 100, 100), (180, 90, 30)])
def test_labels_of_any_ratio_are_trained_with(share: float, size: int, numbers: tuple[int, int, int]) -> None:
    X, classes = blobs(points=540)
    X, classes = (np.concatenate([part[classes == c][:n] for c, n in enumerate(numbers)]) for part in (X, classes))
    labels = np.where(np.random.default_rng(0).random(300) < share, classes, -1)
    first = np.unique(classes, return_index=True)[1]
    labels[first] = classes[first]
    model = small(batch_size=size, steps=10, supervised_steps=10).fit(X, partial_labels=labels)
    assert model.n_iter_ == model.planned_steps(labels) == 20
    assert (model.labels_ == classes).mean() > 0.9


def test_many_labels_of_some_clusters_leave_room_to_find_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """More labelled points than are rounded: others are looked at, too."""
    monkeypatch.setattr(final_classifier, "_ROUNDED", 120)
    X, classes = blobs(points=600)
    labels = np.where((classes == 2) | (np.arange(600) > 500), -1, classes)
    with pytest.warns(UserWarning, match="only some of the 3 clusters have labels"):
        model = small(steps=10).fit(X, partial_labels=labels)
    assert (model.labels_ == classes).mean() > 0.95


def test_steps_are_counted_before_they_are_taken() -> None:
    X, classes = blobs()
    for each, steps in ((0, 3), (2, 5), (50, 2)):
        labels = partly(classes, each)
        model = small(steps=3, supervised_steps=2)
        assert model.planned_steps(labels) == model.fit(X, partial_labels=labels).n_iter_ == steps
    assert small(steps=3).planned_steps() == 3


def test_labels_of_nothing_are_no_labels() -> None:
    X, classes = blobs()
    model = small().fit(X, partial_labels=np.full(150, -1))
    assert model.n_iter_ == 60
    assert accuracy(classes, model.labels_) > 0.95


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


def test_steps_fall_or_are_constant() -> None:
    X, classes = blobs(spread=2.0)
    falling, constant = (
        small(schedule=one, steps=10, assignment="pseudo_labels").fit(X, partial_labels=partly(classes, 4))
        for one in ("falling", "constant")
    )
    assert np.array_equal(falling.trace_[:22], constant.trace_[:22]), "the first step on all points is of full size"
    assert not np.array_equal(falling.trace_[22:], constant.trace_[22:])


def test_labelled_points_alone_can_make_the_classifier() -> None:
    X, classes = blobs(3, spread=2.0)
    labels = partly(classes, 8)
    nearest, labelled = (
        small(classifier=kind, penalty=0.01).fit(X, partial_labels=labels) for kind in ("nearest", "labelled")
    )
    assert np.array_equal(nearest.transform(X), labelled.transform(X))
    assert not np.array_equal(nearest.predict_proba(X), labelled.predict_proba(X))


def test_more_points_than_a_batch() -> None:
    X, classes = blobs(points=900)
    model = small(batch_size=64, steps=40).fit(X, partial_labels=partly(classes, 30))
    assert (model.labels_ == classes).mean() > 0.95
    # Points that links speak of are in every batch.
    linked = small(batch_size=64, steps=40).fit(X, must_link=[(0, 3), (1, 4)], cannot_link=[(0, 1)])
    assert accuracy(classes, linked.labels_) > 0.95


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_it_is_the_same() -> None:
    X, classes = blobs()
    found = [small(device=device).fit(X, partial_labels=partly(classes, 4)) for device in ("cpu", "cuda")]
    assert (found[0].labels_ == found[1].labels_).mean() > 0.98


def test_single_labels_do_no_worse_than_the_nearest_of_them() -> None:
    """Nothing can be left out of a class with one label, so that neither penalty nor classifier are chosen by that."""
    X, y = load_digits(return_X_y=True)
    known = np.full(len(X), -1)
    known[[np.flatnonzero(y == c)[0] for c in range(10)]] = np.arange(10)
    model = XSDC(10, random_state=0).fit(X, partial_labels=known)
    nearest = KNeighborsClassifier(1).fit(X[known >= 0], y[known >= 0]).predict(X)
    assert model.penalty_ == 2**-14
    assert (model.labels_ == y)[known < 0].mean() > (nearest == y)[known < 0].mean()
