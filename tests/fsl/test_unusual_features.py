"""Dates, features without squares, and base means without: refused by name, or classified rightly."""

import numpy as np
import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.few_shot_classifier import FewShotClassifier

GENERATOR = np.random.default_rng(0)
Y = np.repeat([0, 1], 5)
X = GENERATOR.normal(size=(10, 3)) + 9 * Y[:, None]
DAYS = np.datetime64("2020-01-01") + np.arange(30).reshape(10, 3).astype("timedelta64[D]")


def test_dates_are_refused() -> None:
    with pytest.raises(InputError, match="datetime64"):
        FewShotClassifier().fit(DAYS, Y)
    with pytest.raises(InputError, match="datetime64"):
        FewShotClassifier().fit(X, Y).predict(DAYS)
    with pytest.raises(InputError, match=r"base_mean.*datetime64"):
        FewShotClassifier(base_mean=DAYS[0]).fit(X, Y)


def test_base_means_without_squares_are_refused() -> None:
    with pytest.raises(InputError, match=r"base_mean.*float64"):
        FewShotClassifier(base_mean=np.full(3, 1e300)).fit(X, Y)
    rows = torch.from_numpy(X)[None]
    labels = torch.from_numpy(Y)[None]
    for value, words in ((1e300, "squares"), (np.inf, "NaN or infinite")):
        with pytest.raises(InputError, match=f"base_mean.*{words}"):
            Episodes(rows, labels, rows, way=2, base_mean=torch.full((3,), value, dtype=torch.float64))


def test_features_without_squares_are_refused_and_one_column_of_such_changes_nothing() -> None:
    with pytest.raises(InputError, match="squares"):
        FewShotClassifier().fit(1e-320 * X, Y)
    with pytest.raises(InputError, match="squares exceed float64"):
        FewShotClassifier().fit(X, Y).predict(1e300 * X)
    rows, labels = torch.from_numpy(X)[None], torch.from_numpy(Y)[None]
    scaled = torch.cat([rows, 1e-320 * rows])
    with pytest.raises(InputError, match="task 1"):
        Episodes(scaled, labels.expand(2, -1), scaled, way=2)
    mixed = np.c_[X, 1e-320 * X[:, 0]]
    for strategy in ("simpleshot", "laplacianshot"):
        plain, other = (FewShotClassifier(strategy, device="cpu").fit(part, Y).predict(part) for part in (X, mixed))
        np.testing.assert_array_equal(plain, other)
