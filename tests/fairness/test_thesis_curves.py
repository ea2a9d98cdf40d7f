"""What fairness costs on the sets of the thesis: printed rows, the curve along weights, and its fair end."""

import pytest

from fairness import FairKMeans, FairKMedian
from tests.fairness.thesis_sets import by_group, synthetic, unequal

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Fairness error, least balance and objective by weight, of an independent implementation.
CURVES = {
    "K-means, synthetic": {
        1: (2.69, 0.01, 8.73),
        10: (0.915, 0.095, 15.4),
        60: (0.084, 0.525, 34.0),
        500: (0.001, 0.94, 42.3),
        5000: (0.0, 0.99, 43.1),
    },
    "K-means, unequal": {
        1: (0.965, 0.006, 10.5),
        10: (0.30, 0.055, 12.8),
        60: (0.034, 0.206, 19.0),
        500: (0.001, 0.314, 22.9),
        5000: (0.0, 0.331, 23.6),
    },
    "K-median, synthetic": {
        1: (2.63, 0.005, 52.8),
        10: (1.15, 0.05, 58.6),
        60: (0.262, 0.261, 80.2),
        500: (0.014, 0.760, 115.6),
        5000: (0.0, 0.989, 130.0),
    },
    "K-median, unequal": {
        10: (0.37, 0.034, 53.2),
        60: (0.067, 0.156, 60.4),
        500: (0.001, 0.305, 68.1),
        5000: (0.0, 0.325, 69.1),
    },
}
METHODS = {"K-means": (FairKMeans, {}), "K-median": (FairKMedian, {"gap_tol": 1e-4})}
SETS = {"synthetic": synthetic, "unequal": unequal}


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_the_curve_of_error_and_objective(name):
    method, made = name.split(", ")
    kind, options = METHODS[method]
    X, groups = SETS[made]()
    model = kind(2, init=by_group(X, groups), normalize="l2", **options)
    path = model.path(X, list(CURVES[name]), sensitive_features=groups)
    for found, (error, balance, objective) in zip(path, CURVES[name].values(), strict=True):
        assert found.fairness_error_ == pytest.approx(error, rel=0.1, abs=0.02)
        assert found.balance_min_ == pytest.approx(balance, rel=0.1, abs=0.02)
        assert found.objective_ == pytest.approx(objective, rel=0.05)


@quiet
@pytest.mark.parametrize(
    ("kind", "share", "made", "fair"), [(FairKMeans, 0.9, synthetic, 1.0), (FairKMedian, 0.8, unequal, 1 / 3)]
)
def test_a_large_weight_is_fair(kind, share, made, fair):
    X, groups = made()
    model = kind(2, normalize="l2", n_init=1, max_iter=20, random_state=0)
    none, large = model.path(X, [0, 5000], sensitive_features=groups)
    assert none.fairness_error_ > 10
    assert large.fairness_error_ <= 0.02
    assert large.balance_min_ >= share * fair
    assert large.objective_ >= none.objective_


@quiet
@pytest.mark.parametrize(
    ("made", "weight", "error", "balance", "objective"),
    [(synthetic, 85, 0.18, 0.45, 86.03), (unequal, 60, 0.067, 0.338, 60.36)],
)
def test_the_printed_rows(made, weight, error, balance, objective):
    """Thesis Table 3.2, whose balance is the mean over clusters."""
    X, groups = made()
    model = FairKMedian(2, fairness_weight=weight, init=by_group(X, groups), normalize="l2", gap_tol=1e-4)
    model.fit(X, sensitive_features=groups)
    assert model.fairness_error_ == pytest.approx(error, abs=0.02)
    assert model.balance_mean_ == pytest.approx(balance, abs=0.02)
    assert model.objective_ == pytest.approx(objective, abs=1)
    assert model.converged_


@quiet
@pytest.mark.slow
def test_the_foot_of_the_curve_where_one_point_is_the_error():
    """At weight 1 one cluster has a single point of the rarer group, which is in it only where S has converged."""
    X, groups = unequal()
    close = {"gap_tol": 1e-6, "tol": 1e-8, "sweep_tol": 1e-10, "max_sweeps": 300}
    model = FairKMedian(2, fairness_weight=1.0, init=by_group(X, groups), normalize="l2", **close)
    model.fit(X, sensitive_features=groups)
    assert model.fairness_error_ == pytest.approx(0.79, abs=0.02)
    assert model.balance_min_ == pytest.approx(0.006, abs=0.001)
    assert model.objective_ == pytest.approx(51.4, rel=0.01)
