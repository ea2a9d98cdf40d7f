"""Every fair method of the table, also one added tomorrow, keeps to what `transduce fair` and its tables need of it."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from clustering.foundation.errors import InputError
from clustering.methods import with_known
from fairness.methods import METHODS, UNFAIR, kind_of
from fairness.metrics import balance, fairness_error


@pytest.fixture(autouse=True)
def _few_points():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def made(name, **given):
    return with_known(METHODS.load(name)(), n_init=1, random_state=0, device="cpu", **given)


def grouped():
    rng = np.random.default_rng(0)
    of = np.arange(48) % 3
    return 4 * np.eye(3)[of] + rng.normal(size=(48, 3)), {"sex": np.where(rng.random(48) < 0.5, "f", "m")}


@pytest.mark.parametrize("name", METHODS.table)
def test_it_takes_groups_by_attribute_and_says_what_its_objective_is(name):
    X, groups = grouped()
    model = made(name, n_clusters=2).fit(X, sensitive_features=groups)
    assert model.labels_.shape == (48,)
    assert set(model.labels_) <= {0, 1}
    assert np.isfinite(model.objective_)
    assert kind_of(model) in UNFAIR, "else nothing can be compared with it: add `kind`"
    assert sum(model.seconds_) > 0
    assert model.n_iter_ >= 1
    if hasattr(model, "fairness_error_"):
        assert model.fairness_error_ == pytest.approx(fairness_error(model.labels_, groups["sex"]))
        assert model.balance_min_ == pytest.approx(balance(model.labels_, groups["sex"]))
        assert model.balance_mean_ == pytest.approx(balance(model.labels_, groups["sex"], reduce="mean"))
        assert [str(name).rpartition("=")[2] for name in model.group_names_] == ["f", "m"]
        assert (model.group_counts_.shape, model.group_counts_.sum()) == ((2, 2), 48)
        assert len(model.history_) >= 1


@pytest.mark.filterwarnings("ignore:.* no sensitive_features")
@pytest.mark.parametrize("name", METHODS.table)
def test_what_cannot_be_is_refused_alike(name):
    X, groups = grouped()
    broken = X.copy()
    broken[7, 1] = np.inf
    for rows, sensitive, words in (
        (broken, groups, "row 7"),
        (X[:1], None, "n_samples=1 .*n_clusters=2"),
        (X, [0.0, np.nan] * 24, "24 of 48 rows.*row 1.*fillna"),
        (X, [0, 1], "48 rows"),
        (X, [0] * 47 + [1], r"'1' .*1 points.*n_clusters=2.*small_groups='keep'"),
    ):
        with pytest.raises(InputError, match=words):
            made(name, n_clusters=2).fit(rows, sensitive_features=sensitive)
    if "sensitive_features" in inspect.signature(METHODS.load(name).fit).parameters:
        alone = made(name, n_clusters=2).fit(X)
        assert (alone.fairness_error_, len(set(alone.labels_))) == (0, 2)


@pytest.mark.parametrize("name", METHODS.table)
def test_one_with_a_weight_has_a_path_and_one_without_has_none(name):
    kind = METHODS.load(name)
    assert hasattr(kind, "path") == ("fairness_weight" in inspect.signature(kind).parameters)
    if not hasattr(kind, "path"):
        return
    X, groups = grouped()
    fitted = made(name, n_clusters=2).path(X, [0.0, 5.0], sensitive_features=groups)
    assert [model.fairness_weight_ for model in fitted] == [0, 5]


def test_the_unfair_methods_are_of_the_objective_that_they_stand_for():
    for objective, name in UNFAIR.items():
        assert kind_of(METHODS.load(name)()) == objective


@pytest.mark.parametrize("name", METHODS.table)
def test_a_stored_model_holds_no_point_s_group(name):
    X, groups = grouped()
    in_one = groups["sex"] == "f"
    kept = list(vars(pickle.loads(pickle.dumps(made(name, n_clusters=2).fit(X, sensitive_features=groups)))).values())
    while kept:
        value = kept.pop()
        if isinstance(value, dict | list | tuple):
            kept += value.values() if isinstance(value, dict) else value
        elif isinstance(value, np.ndarray | torch.Tensor):
            for column in np.asarray(value).reshape(len(value), -1).T if np.shape(value)[:1] == (48,) else ():
                assert not np.isin(np.abs(np.corrcoef(column, in_one)[0, 1]).round(9), 1.0)
        elif hasattr(value, "__dict__"):
            kept += vars(value).values()
