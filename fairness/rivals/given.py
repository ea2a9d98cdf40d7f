"""What every rival is given."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.optimiser.centres import Rows
from clustering.seeding import first_seeds
from fairness.fit_input import fit_input
from fairness.groups import Groups

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Given(NamedTuple):
    """Points and groups of a fit.

    Attributes:
        values: (N, D) float64, divided by their length if the estimator says so.
        groups: of the points.
        seed: of everything random.
    """

    values: Floats
    groups: Groups
    seed: int

    def seeds(self, estimator: Any, places: Floats | None = None) -> Floats:
        """(T, K, D) k-means++ seeds of the starts, or the init: those of every other estimator with this random_state.

        They are rows of `places` (N, D), where points do not stand at their values.
        """
        rows = Rows.of(torch.from_numpy(self.values if places is None else places))
        found: Tensor = first_seeds(
            estimator.init, rows, estimator.n_clusters, estimator.n_init, estimator.random_state
        )
        return (found if rows.origin is None else found + rows.origin).numpy()


def given(estimator: Any, X: ArrayLike, sensitive_features: Any, *, two_groups: bool = False, **how: Any) -> Given:
    """Check the parameters and the data of a fit, see `fairness.fit_input.fit_input`.

    Args:
        estimator: with `random_state` besides.
        X: (N, D).
        sensitive_features: see `fairness.groups.groups_of`.
        two_groups: refuse more.
        how: the groups are made.

    Raises:
        InputError: names the parameter or what is wrong with the data.
    """
    values, groups = fit_input(estimator, X, sensitive_features, **how)
    if two_groups and len(groups.names) > 2:
        raise InputError(
            f"{type(estimator).__name__} is for two groups, and there are {len(groups.names)}: "
            f"{', '.join(groups.labels()[:6])}; join groups, or take Bera, FairLloyd or FairAlignment"
        )
    return Given(values.numpy().astype(np.float64), groups, _seed(estimator.random_state))


def _seed(random_state: Any) -> int:
    """An integer that tells random_state, which seeds are drawn from besides; a generator is read from once more."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
