"""What holds for every estimator: scikit-learn's contract, the numbers of the clusters, and what a y is good for."""

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import clustering.methods
import fairness.methods
from clustering.deep.fair_assignment import FairAssignment
from clustering.foundation.errors import InputError

METHODS = clustering.methods.METHODS.table
FAIR = fairness.methods.METHODS.table
HEAVY = ("slk", "published_slk", "lk", "kmodes", "xsdc", "fair_alignment")
"""Estimators whose whole contract is a slow test; all of it but the lengthy checks is a quick one."""
LENGTHY = {"check_estimator_sparse_array", "check_estimator_sparse_matrix", "check_clustering"}
LENGTHY |= {"check_transformer_general", "check_transformer_data_not_an_array", "check_estimators_dtypes"}
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": "seeds depend on the order of points"}
QUICK = {"normalize": None, "n_init": 2, "max_iter": 40, "steps": 20, "supervised_steps": 20}


def made(name: str, **options: Any) -> Any:
    """A quick estimator of this name."""
    if name == "fair_assignment":
        return FairAssignment(**options)
    table = clustering.methods.METHODS if name in METHODS else fairness.methods.METHODS
    return clustering.methods.with_known(table.load(name)(), **{**QUICK, **options})


EVERY = [*METHODS, *FAIR, "fair_assignment"]


def blobs() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Three blobs far apart, whose points come in turns."""
    classes = np.tile([0, 1, 2], 20)
    return np.random.default_rng(0).normal(size=(60, 3)) + 12 * np.eye(3)[classes], classes


def fitted(name: str, X: NDArray[np.float64], **given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of graphs that fall apart
        return made(name, n_clusters=3, random_state=0).fit(X, **given)


def brief(name: str) -> Any:
    return made(name, n_clusters=3, n_init=1, max_iter=5, steps=5, supervised_steps=5)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in [*METHODS, *FAIR]]
)
def test_the_contract_of_scikit_learn(name: str) -> None:
    """Of all but FairAssignment, whose X has a column for each cluster."""
    with warnings.catch_warnings():
        # Of checks that are skipped here, of labels as y, of clusters without points and of graphs that fall apart.
        warnings.simplefilter("ignore")
        check_estimator(brief(name), expected_failed_checks=EXPECTED if name == "kmeans" else {})


@pytest.mark.parametrize("name", HEAVY)
def test_the_contract_of_scikit_learn_but_its_lengthy_checks(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(brief(name)):
            if check.func.__name__ not in {*LENGTHY, "check_array_api_input"}:  # which asks for SCIPY_ARRAY_API
                check(estimator)


@pytest.mark.parametrize("name", [*METHODS, *FAIR])
def test_sparse_rows_are_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(InputError, match="X is sparse, but dense rows are required; reduce it, as by TruncatedSVD"):
        made(name, n_clusters=3).fit(sparse.csr_array(blobs()[0]))


@pytest.mark.parametrize("name", [*METHODS, *FAIR])
def test_clusters_are_numbered_by_their_first_points_and_so_is_what_is_told_of_them(name: str) -> None:
    X, classes = blobs()
    order = np.random.default_rng(1).permutation(len(X))
    model = fitted(name, X[order])
    assert np.unique(model.labels_, return_index=True)[1].tolist() == sorted(
        np.unique(classes[order], return_index=True)[1].tolist()
    )
    if hasattr(model, "cluster_centers_") and model.cluster_centers_.shape[1] == X.shape[1] and name != "seeded_kmeans":
        means = np.stack([X[order][model.labels_ == k].mean(axis=0) for k in range(3)])
        assert np.abs(model.cluster_centers_ - means).max() < 2
    if hasattr(model, "predict"):
        assert model.predict(X[order]).tolist() == model.labels_.tolist()
    for table in ("assignments_", "predict_proba"):
        if hasattr(model, table):
            each = getattr(model, table)
            each = each(X[order]) if callable(each) else each
            assert each.argmax(axis=1).tolist() == model.labels_.tolist()


@pytest.mark.parametrize("name", ["slk", "seeded_kmeans", "softmax", "entropy", "xsdc"])
def test_known_labels_keep_their_numbers(name: str) -> None:
    X, classes = blobs()
    known = np.where(np.arange(len(X)) < 6, 2 - classes, -1)
    assert fitted(name, X, partial_labels=known).labels_.tolist() == (2 - classes).tolist()
    labels = fitted(name, X, partial_labels=np.where(classes == 0, known, -1)).labels_
    assert labels[:3].tolist() == [2, 0, 1]  # the others by their first points


@pytest.mark.parametrize(
    "name", ["kmeans", "kmodes", "lk", "slk", "published_slk", "fair_kmeans", "fair_kmedian", "bera"]
)
def test_prototypes_that_are_given_keep_their_numbers(name: str) -> None:
    X, classes = blobs()
    init = np.stack([X[classes == k].mean(axis=0) for k in (2, 0, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = made(name, n_clusters=3, random_state=0, init=init).fit(X)
    assert model.labels_[:3].tolist() == [1, 2, 0]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("y", [[-1, 0, 1], ["a", "b", "c"]])
def test_a_y_is_ignored_with_a_warning_where_it_may_have_been_meant_as_something(name: str, y: list[Any]) -> None:
    X, _ = blobs()
    model = made(name, n_clusters=3)
    taken = inspect.signature(model.fit).parameters
    instead = next((each for each in ("partial_labels", "sensitive_features") if each in taken), None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, np.tile(y, 20))
    of_y = [str(each.message) for each in said if "y is ignored" in str(each.message)]
    assert len(of_y) == (instead is not None)
    assert all(str(instead) in each for each in of_y)
    assert all(each.filename == __file__ for each in said if "y is ignored" in str(each.message))
