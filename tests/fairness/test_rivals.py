"""What holds for every rival: the same report, groups by any names, bad input."""

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

import fairness.rivals
from clustering.foundation.errors import InputError
from fairness.metrics import balance, fairness_error
from fairness.rivals import RIVALS

TWO_GROUPS = {"Backurs", "Chierichetti"}


def made(name: str, n_clusters: int, **changes: Any) -> Any:
    return getattr(fairness.rivals, name)(n_clusters, random_state=0, **changes)


def blobs(seed: int, N: int = 60, groups: int = 2) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Three blobs, of which each has more of one group."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, 3, N)
    sensitive = np.where(rng.random(N) < 0.6, of % groups, rng.integers(0, groups, N))
    sensitive[:10] = np.arange(10) % groups  # so that there are five of each
    return 4 * np.eye(3)[of] + rng.normal(size=(N, 3)), sensitive


@pytest.mark.parametrize("name", RIVALS)
def test_what_is_reported_is_of_the_labels(name):
    X, sensitive = blobs(0)
    model = made(name, 3).fit(X, sensitive_features=np.array(["f", "m"])[sensitive])
    assert model.fairness_error_ == pytest.approx(fairness_error(model.labels_, sensitive))
    assert model.balance_min_ == pytest.approx(balance(model.labels_, sensitive))
    assert model.balance_mean_ == pytest.approx(balance(model.labels_, sensitive, reduce="mean"))
    assert model.group_names_ == ("f", "m")
    assert model.group_counts_.shape == (2, 3)
    assert model.group_counts_.sum() == len(X)
    assert model.n_iter_ == len(model.history_) >= 1
    assert np.isfinite(model.history_).all()
    assert sum(model.seconds_) > 0


@pytest.mark.parametrize("name", RIVALS)
def test_without_groups_nothing_is_asked_of_the_clusters(name):
    X, _ = blobs(2)
    model = made(name, 3).fit(X)
    assert model.fairness_error_ == 0
    assert np.isnan(model.balance_min_)
    assert len(np.unique(model.labels_)) == 3


@pytest.mark.parametrize("name", RIVALS)
def test_a_group_of_fewer_points_than_clusters_is_refused_unless_it_may_be_missing(name):
    X, sensitive = blobs(3)
    sensitive[:] = 0
    sensitive[:2] = 1
    with pytest.raises(InputError, match=r"'1' .*2 points.*n_clusters=3"):
        made(name, 3).fit(X, sensitive_features=sensitive)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # two fairlets make two clusters
        model = made(name, 3, small_groups="keep").fit(X, sensitive_features=sensitive)
    assert len(model.labels_) == len(X)


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize(
    ("sensitive", "message"),
    [
        ([0.0, np.nan] * 30, "30 of 60 rows.*row 1"),
        ([0, 1], "60 rows"),
    ],
)
def test_groups_that_cannot_be(name, sensitive, message):
    with pytest.raises(InputError, match=message):
        made(name, 3).fit(blobs(0)[0], sensitive_features=sensitive)


@pytest.mark.parametrize("name", RIVALS)
def test_three_groups_where_the_method_is_for_two(name):
    X, sensitive = blobs(4, groups=3)
    if name in TWO_GROUPS:
        with pytest.raises(InputError, match=f"{name} .*3: 0, 1, 2"):
            made(name, 3).fit(X, sensitive_features=sensitive)
    else:
        assert made(name, 3).fit(X, sensitive_features=sensitive).group_counts_.shape == (3, 3)


@pytest.mark.parametrize("name", RIVALS)
def test_every_parameter_is_checked(name):
    X, _ = blobs(5)
    for parameter in inspect.signature(type(made(name, 3))).parameters:
        if parameter in ("init", "target", "random_state"):
            continue
        with pytest.raises(InputError, match=f"{name}: {parameter} "):
            made(name, 3).set_params(**{parameter: -1}).fit(X)


@pytest.mark.parametrize("name", RIVALS)
def test_rows_that_cannot_be(name):
    X, sensitive = blobs(6)
    X[7, 1] = np.inf
    with pytest.raises(InputError, match="row 7"):
        made(name, 3).fit(X, sensitive_features=sensitive)
    with pytest.raises(InputError, match=r"n_samples=2 .*n_clusters=3"):
        made(name, 3).fit(X[:2])
