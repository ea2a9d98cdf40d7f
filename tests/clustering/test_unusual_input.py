"""Dates, and numbers whose squares vanish: refused by name, or labelled rightly, by every estimator."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from clustering.methods import METHODS, with_known

DAYS = np.datetime64("2020-01-01") + np.arange(60).reshape(20, 3).astype("timedelta64[D]")
ONE_COLUMN = pd.DataFrame({"a": np.arange(20.0), "when": pd.date_range("2020", periods=20, tz="UTC")})
OBJECTS = DAYS.astype(object)


def made(kind: Any) -> Any:
    few = {name: 2 for name in ("n_init", "max_iter") if name in kind().get_params()}
    return kind(n_clusters=2, **few)


@pytest.mark.parametrize("name", list(METHODS.table))
def test_dates_are_refused(name: str) -> None:
    for X, words in (
        (DAYS, "datetime64"),
        (pd.DataFrame(OBJECTS), "column 0"),
        (DAYS - DAYS[0], "timedelta64"),
        (ONE_COLUMN, "'when'"),
        (OBJECTS, "dates"),
    ):
        with pytest.raises(InputError, match=words):
            made(METHODS.load(name)).fit(X)


def blobs() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    generator = np.random.default_rng(0)
    truth = np.repeat([0, 1], 15)
    return generator.normal(size=(30, 2)) + 8 * truth[:, None], truth


@pytest.mark.parametrize("name", ["kmeans", "kmodes", "ncut", "kernel_kmeans", "lk", "slk", "entropy"])
def test_a_column_without_squares_changes_nothing_and_nothing_else_is_refused(name: str) -> None:
    X, truth = blobs()
    for faint in (1e-320, 1e-200):
        model = with_known(made(METHODS.load(name)), random_state=0, max_iter=20)
        labels = model.fit(np.c_[X, faint * X[:, 0]]).labels_
        assert len(set(zip(labels, truth, strict=True))) == 2
    with pytest.raises(InputError, match="only values whose squares"):
        made(METHODS.load(name)).fit(1e-320 * X)
