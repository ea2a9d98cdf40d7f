"""Input that is none of the ordinary, blocks of rows, and models that hold no point."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sklearn.datasets import make_blobs

from clustering import SLK, GaussianKModes, KMeans, LaplacianKModes
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


X = make_blobs(300, 40, centers=4, random_state=0)[0].astype(np.float32)


@pytest.mark.parametrize("model", [SLK(4, n_init=2, random_state=0), LaplacianKModes(4, n_init=2, random_state=0)])
def test_no_point_is_kept(model: Any) -> None:
    whole = model.fit(X)
    expected, size = whole.predict(X, by="prototypes"), len(pickle.dumps(whole))
    small = model.fit(X, keep_graph=False)
    loaded = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(loaded.predict(X, by="prototypes"), expected)
    assert len(pickle.dumps(small)) < size - X.nbytes
    assert X[17].tobytes() not in pickle.dumps(small)
    with pytest.raises(InputError, match='by="prototypes"'):
        loaded.predict(X)


MODELS = [SLK(3, n_init=2, random_state=0), GaussianKModes(3, random_state=0), KMeans(3, random_state=0)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_blocks_of_a_dask_array_are_predicted_on_the_workers(model: Any, client: Any) -> None:
    dask_array = pytest.importorskip("dask.array")
    X, _ = make_blobs(400, 4, centers=3, random_state=0)
    model.fit(X[::4])
    blocks = dask_array.from_array(X, chunks=(90, -1))
    labels = blocks.map_blocks(model.predict, dtype=np.int64, drop_axis=1)
    assert_array_equal(labels.compute(), model.predict(X))


@pytest.mark.parametrize("points", [2, 3, 4])
@pytest.mark.parametrize("kind", [SLK, LaplacianKModes])
def test_clusters_smaller_than_neighbourhoods_are_found(kind: Any, points: int) -> None:
    X, truth = make_blobs([points] * 12, 5, center_box=(-90, 90), random_state=0)
    labels = kind(12, n_init=4, random_state=0).fit(X).labels_
    assert len(set(zip(labels, truth, strict=True))) == len(set(labels)) == 12
