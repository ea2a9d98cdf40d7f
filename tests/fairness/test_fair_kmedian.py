"""FairKMedian: medians against a loop, descent."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness import FairKMedian
from fairness.optimiser.points import Points
from fairness.optimiser.prototypes import weiszfeld
from tests.fairness.thesis_sets import draw, synthetic, unequal

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BRIEF: dict[str, Any] = {"n_init": 1, "rungs": 1, "max_iter": 6, "max_sweeps": 10, "random_state": 0}


@quiet
@settings(max_examples=3)
@given(
    seed=st.integers(0, 10_000),
    exponent=st.floats(-6, 6),
    K=st.integers(1, 5),
    J=st.integers(2, 5),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_the_objective_never_rises(seed, exponent, K, J, dtype):
    X, groups = draw(seed, J=J)
    model = FairKMedian(K, fairness_weight=10.0**exponent, small_groups="keep", **BRIEF)
    model.fit(X.astype(dtype), sensitive_features=groups)
    size = model.history_[0].objective + 10.0**exponent * 20 * K
    eps = 1e-10 if dtype == "float64" else 1e-5
    for before, after in zip(model.history_, model.history_[1:], strict=False):
        if before.weight == after.weight:
            assert after.objective <= before.objective + eps * size


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), on_a_point=st.booleans())
def test_a_weiszfeld_step_is_that_of_a_loop(seed, on_a_point):
    drawn = np.random.default_rng(seed)
    X, K = drawn.normal(size=(12, 2)), 2
    points = Points(torch.from_numpy(X), torch.zeros(12, dtype=torch.int64), 1, K)
    logs = points.begin(torch.from_numpy(drawn.integers(0, K, 12)), 0.5)
    S, medians = logs[0].exp().T.numpy(), drawn.normal(size=(K, 2))
    if on_a_point:
        medians[0] = X[3]
    totals, found = weiszfeld(points, logs, torch.from_numpy(medians))
    for k in range(K):
        y, mass, target, here = medians[k], 0.0, np.zeros(2), 0.0
        for p in range(12):
            d = float(np.linalg.norm(X[p] - y))
            if d < 1e-9:
                here += S[p, k]
            else:
                mass, target = mass + S[p, k] / d, target + S[p, k] / d * X[p]
        pull = np.linalg.norm(target - mass * y)
        hold = min(1.0, here / pull)
        np.testing.assert_allclose(found[k].numpy(), (1 - hold) * target / mass + hold * y, rtol=1e-6, atol=1e-7)
        paid = sum(S[p, k] * np.linalg.norm(X[p] - y) for p in range(12))
        assert float(totals[k]) == pytest.approx(paid, abs=1e-6)
    assert (weiszfeld(points, logs, found)[0] <= totals + 1e-9).all()


@quiet
def test_medoids_are_rows_and_new_points_are_predicted():
    X, groups = unequal()
    model = FairKMedian(3, **BRIEF).fit(X, sensitive_features=groups)
    paid = np.linalg.norm(X - X[model.medoid_indices_][model.labels_], axis=1).sum()
    assert model.objective_ == pytest.approx(paid)
    assert model.medoid_excess_ == 0
    distances = np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2)
    paid = distances + model.group_prices_[(groups == "low").astype(int)]
    np.testing.assert_array_equal(model.predict(X, sensitive_features=groups), paid.argmin(axis=1))
    excess = np.take_along_axis(paid, model.labels_[:, None], 1) - paid.min(axis=1, keepdims=True)
    assert excess.sum() <= 2 * model.gap_ + 1e-9  # labels differ where a point hardly cares


def scaled(made):
    """The points as the authors' later code has them: columns in standard deviations, then rows of unit length."""
    X, groups = made
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), groups


def test_at_weight_zero_no_pair_of_points_are_cheaper_medoids():
    """Against all pairs. Geometric medians and their medoids end at 286.25."""
    X, groups = scaled(synthetic())
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    least = min(np.minimum(own, distances[i + 1 :]).sum(axis=1).min() for i, own in enumerate(distances[:-1]))
    model = FairKMedian(2, fairness_weight=0, n_init=1, random_state=0).fit(X, sensitive_features=groups)
    assert model.objective_ == pytest.approx(least)
    assert model.relaxed_objective_ == pytest.approx(least)


@quiet
@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "objective", "error"), [(10, 287.281, 0.1561), (60, 290.154, 0.0199), (500, 293.444, 0.0005)]
)
def test_labels_are_no_dearer_than_those_of_the_public_code(weight, objective, error):
    """E of the best of 12 seeds of the authors' algorithm, and the objective alone."""
    X, groups = scaled(synthetic())
    model = FairKMedian(2, fairness_weight=weight, random_state=0).fit(X, sensitive_features=groups)
    assert model.objective_ <= objective
    assert model.objective_ + weight * model.fairness_error_ <= objective + weight * error + 0.01
