"""Prediction sets against MAPIE, and their coverage."""

from typing import Any, Self

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from mapie.conformity_scores import LACConformityScore
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from clustering.foundation.errors import InputError
from fsl.labelling.prediction_sets import PredictionSets, predict_set


def drawn(seed: int, size: int = 300, classes: int = 5) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities, and labels drawn by them."""
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.full(classes, 0.5), size=size)
    return probabilities, (probabilities.cumsum(axis=1) < random.random(size)[:, None]).sum(axis=1)


class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The probabilities are the features."""

    def fit(self, X: Any, y: Any) -> Self:
        self.classes_, self.n_features_in_ = np.arange(X.shape[1]), X.shape[1]
        self.label_distributions_, self.labelled_ = X, np.array([], dtype=np.int64)
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)


def sets(p: NDArray[np.float64], y: NDArray[np.int64], n: int, **settings: Any) -> PredictionSets:
    return predict_set(Given().fit(p, y), np.arange(n), y[:n], **settings)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_the_sets_are_those_of_mapie(alpha: float) -> None:
    p, y = drawn(0)
    oracle = SplitConformalClassifier(
        Given().fit(p, y), confidence_level=1 - alpha, conformity_score=LACConformityScore(), prefit=True
    )
    expected = oracle.conformalize(p[:101], y[:101]).predict_set(p)[1][:, :, 0]
    assert (sets(p, y, 101, alpha=alpha).members == expected).all()


@pytest.mark.parametrize("by_class", [False, True])
def test_coverage_is_as_stated(by_class: bool) -> None:
    covered = []
    for seed in range(60):
        p, y = drawn(seed, size=600)
        found = sets(p, y, 300, by_class=by_class)
        covered.append(found.members[np.arange(300, 600), y[300:]].mean())
    assert 0.89 <= np.mean(covered) <= 0.93
    with pytest.raises(InputError, match="alpha"):
        sets(p, y, 300, alpha=0.0)
