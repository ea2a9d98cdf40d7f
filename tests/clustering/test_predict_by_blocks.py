"""Models of a sample predict blocks of rows as they predict all rows, also on the workers of a Dask cluster."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from clustering import SLK, GaussianKModes, KMeans

MODELS = [SLK(3, n_init=2, random_state=0), GaussianKModes(3, random_state=0), KMeans(3, random_state=0)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_blocks_of_a_dask_array_are_predicted_on_the_workers(model: Any, client: Any) -> None:
    dask_array = pytest.importorskip("dask.array")
    X, _ = make_blobs(400, 4, centers=3, random_state=0)
    model.fit(X[::4])
    blocks = dask_array.from_array(X, chunks=(90, -1))
    labels = blocks.map_blocks(model.predict, dtype=np.int64, drop_axis=1)
    assert_array_equal(labels.compute(), model.predict(X))
