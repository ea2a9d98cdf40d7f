"""FairKMedian: medians against a loop, descent."""

from typing import Any

import numpy as np
import pytest

from fairness import FairKMedian
from tests.fairness.thesis_sets import synthetic, unequal

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BRIEF: dict[str, Any] = {"n_init": 1, "random_state": 0}


@quiet
def test_medoids_are_rows_and_new_points_are_predicted():
    X, groups = unequal()
    model = FairKMedian(3, **BRIEF).fit(X, sensitive_features=groups)
    paid = np.linalg.norm(X - X[model.medoid_indices_][model.labels_], axis=1).sum()
    assert model.objective_ == pytest.approx(paid)
    assert model.medoid_excess_ == 0
    np.testing.assert_allclose(model.cluster_centers_, X[model.medoid_indices_])
    assert (model.predict(X, sensitive_features=groups) == model.labels_).mean() > 0.9


def scaled(made):
    """The points as the authors' later code has them: columns in standard deviations, then rows of unit length."""
    X, groups = made
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), groups


@quiet
@pytest.mark.parametrize(
    ("weight", "objective", "error"), [(10, 287.281, 0.1561), (60, 290.154, 0.0199), (500, 293.444, 0.0005)]
)
def test_labels_are_no_dearer_than_those_of_the_public_code(weight, objective, error):
    """E of the best of 12 seeds of the authors' algorithm, and the objective alone."""
    X, groups = scaled(synthetic())
    model = FairKMedian(2, fairness_weight=weight, random_state=0).fit(X, sensitive_features=groups)
    assert model.objective_ <= objective
    assert model.objective_ + weight * model.fairness_error_ <= objective + weight * error + 0.01
