"""The printed rows of the thesis on its synthetic sets."""

import pytest

from fairness import FairKMedian
from tests.fairness.thesis_sets import by_group, synthetic, unequal

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@quiet
@pytest.mark.parametrize(
    ("made", "weight", "error", "balance", "objective"),
    [(synthetic, 85, 0.18, 0.45, 86.03), (unequal, 60, 0.067, 0.338, 60.36)],
)
def test_the_printed_rows(made, weight, error, balance, objective):
    """Thesis Table 3.2, whose balance is the mean over clusters."""
    X, groups = made()
    model = FairKMedian(2, fairness_weight=weight, init=by_group(X, groups), normalize="l2")
    model.fit(X, sensitive_features=groups)
    assert model.fairness_error_ == pytest.approx(error, abs=0.02)
    assert model.balance_mean_ == pytest.approx(balance, abs=0.02)
    assert model.objective_ == pytest.approx(objective, abs=1)
    assert model.converged_
