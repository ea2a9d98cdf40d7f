"""What fairness costs on the sets of the thesis: printed rows, the curve along weights, and its fair end."""

import pytest

from fairness import FairKMeans, FairKMedian
from tests.fairness.thesis_sets import by_group, synthetic, unequal

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Fairness error, least balance and objective by weight, of an independent implementation.


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
