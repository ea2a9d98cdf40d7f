"""Every method of the table, also one added tomorrow, keeps to scikit-learn's contract."""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

from clustering.methods import METHODS


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", METHODS.table)
def test_the_contract_of_scikit_learn(name: str) -> None:
    estimator = METHODS.load(name)()
    quick = {"n_init": 1, "max_iter": 40, "max_sweeps": 5, "steps": 10, "supervised_steps": 5}
    estimator.set_params(**{name: value for name, value in quick.items() if name in estimator.get_params()})
    with warnings.catch_warnings():
        # What a check needs that this process was not started with (SCIPY_ARRAY_API) is skipped with a warning.
        warnings.filterwarnings("ignore", message=".*SCIPY_ARRAY_API.*")
        check_estimator(estimator)
