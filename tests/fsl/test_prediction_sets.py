"""Prediction sets against MAPIE and loops, their coverage, and the temperature."""

from typing import Any, Self

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from mapie.conformity_scores import APSConformityScore, LACConformityScore, RAPSConformityScore
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from clustering.foundation.errors import InputError
from fsl.labelling.calibration import at_temperature, fit_temperature
from fsl.labelling.prediction_sets import Score, check_unseen, conformity_scores, predict_set

SCORES: tuple[Score, ...] = ("lac", "aps", "raps")


def drawn(seed: int, size: int = 300, classes: int = 5) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities, and labels drawn by them."""
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.full(classes, 0.5), size=size)
    return probabilities, (probabilities.cumsum(axis=1) < random.random(size)[:, None]).sum(axis=1)


class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The probabilities are the features."""

    def fit(self, X: Any, y: Any) -> Self:
        self.classes_, self.n_features_in_ = np.arange(X.shape[1]), X.shape[1]
        return self

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_lac_has_the_sets_of_mapie(alpha: float) -> None:
    p, y = drawn(0)
    oracle = SplitConformalClassifier(
        Given().fit(p, y), confidence_level=1 - alpha, conformity_score=LACConformityScore(), prefit=True
    )
    expected = oracle.conformalize(p[:101], y[:101]).predict_set(p[101:])[1][:, :, 0]
    assert (predict_set(p[:101], y[:101], p[101:], alpha=alpha).members == expected).all()


def test_aps_and_raps_have_the_scores_of_mapie() -> None:
    p, y = drawn(1)
    oracle = APSConformityScore()
    oracle.classes, oracle.random_state = np.arange(5), 0
    expected = oracle.get_conformity_scores(y, p, y_enc=y)
    uniform = np.random.RandomState(0).uniform(size=len(p))
    own = np.arange(len(p)), y
    assert conformity_scores(p, "aps", uniform)[own] == pytest.approx(expected[:, 0])
    penalised = RAPSConformityScore._regularize_conformity_score(np.array([2]), 0.07, expected, oracle.cutoff)
    found = conformity_scores(p, "raps", uniform, penalty=0.07, free=2)
    assert found[own] == pytest.approx(penalised[:, 0, 0])


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("by_class", [False, True])
def test_coverage_is_as_stated(score: Score, by_class: bool) -> None:
    covered = []
    for seed in range(60):
        p, y = drawn(seed, size=600)
        covered.append(predict_set(p[:300], y[:300], p[300:], score=score, by_class=by_class).coverage(y[300:]))
    assert 0.89 <= np.mean(covered) <= 0.93


def test_seen_labels_are_refused() -> None:
    check_unseen([1, 2], [3, 4])
    with pytest.raises(InputError, match="2 calibration points, such as 2"):
        check_unseen([1, 2, 3], [2, 3, 4])


def test_bad_input_is_named() -> None:
    p, y = drawn(0, size=20)
    for bad in (
        (p, y[:-1], p),
        (p, y + 5, p),
        (p, y.astype(float), p),
        (p[:0], y[:0], p),
        (-p, y, p),
        (p, y, p[:, 1:]),
    ):
        with pytest.raises(InputError, match=r"labels|probabilities"):
            predict_set(*bad)
    wrong: list[dict[str, Any]] = [{"alpha": 0.0}, {"score": "abs"}, {"penalty": -1.0}]
    for setting in wrong:
        with pytest.raises(InputError, match=next(iter(setting))):
            predict_set(p, y, p, **setting)
    with pytest.raises(InputError, match="temperature"):
        at_temperature(p, 0)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_temperature_is_found_again(temperature: float) -> None:
    p, y = drawn(5, size=4000)
    assert fit_temperature(at_temperature(p, temperature), y) == pytest.approx(1 / temperature, rel=0.1)
