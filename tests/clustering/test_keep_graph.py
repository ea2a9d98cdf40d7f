"""Models fitted with keep_graph=False hold no point, and assign new ones by prototypes."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from clustering import SLK, LaplacianKModes
from clustering.foundation.errors import InputError

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
