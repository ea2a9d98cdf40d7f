"""What every rival is given, and what it reports of its labels in the same words."""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from clustering.centres import Rows
from clustering.errors import InputError
from clustering.estimator_input import checked_rows
from clustering.parameters import validate_signature
from clustering.seeding import first_seeds
from clustering.timing import Seconds
from fairness.groups import Groups, groups_of, smallest_group
from fairness.objectives import kmeans_objective, medoids
from fairness.reporting import keep_fairness

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SmallGroups = Literal["error", "keep"]
"""What to do where a group has fewer points than there are clusters."""


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
    """Check the parameters and the data of a fit.

    Args:
        estimator: with `n_clusters`, `normalize`, `random_state` and, where it matters, `small_groups`.
        X: (N, D).
        sensitive_features: see `fairness.groups.groups_of`.
        two_groups: refuse more.
        how: the groups are made.

    Raises:
        InputError: names the parameter or what is wrong with the data.
    """
    validate_signature(estimator)
    name, clusters = type(estimator).__name__, estimator.n_clusters
    values = checked_rows(estimator, X, reset=True, normalize=estimator.normalize).numpy().astype(np.float64)
    if len(values) < clusters:
        raise InputError(f"n_samples={len(values)} should be >= n_clusters={clusters}")
    groups = groups_of(sensitive_features, len(values), **how)
    if two_groups and len(groups.names) > 2:
        raise InputError(
            f"{name} is for two groups, and there are {len(groups.names)}: {', '.join(groups.labels()[:6])}; join "
            "groups, or take Bera, FairLloyd or FairAlignment"
        )
    if getattr(estimator, "small_groups", "keep") == "error":
        smallest_group(groups, clusters, name)
    return Given(values, groups, _seed(estimator.random_state))


def _seed(random_state: Any) -> int:
    """An integer that tells random_state, which seeds are drawn from besides; a generator is read from once more."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def keep_labels(estimator: Any, data: Given, labels: Ints, objective: float, history: Any, seconds: Seconds) -> None:
    """Set the fitted attributes that every method has.

    Args:
        estimator: whose they are.
        data: of the fit.
        labels: (N,) 0..K-1.
        objective: of the labels.
        history: what the method lowered, after each of its iterations.
        seconds: the fit took.
    """
    keep_fairness(estimator, labels, data.groups)
    estimator.objective_ = objective
    estimator.history_ = np.asarray(history, dtype=np.float64)
    estimator.n_iter_, estimator.seconds_ = max(1, len(estimator.history_)), seconds


def objective_of(kind: str, values: Floats, labels: Ints) -> float:
    """K-means or K-median objective of the labels, about their own means or medoids."""
    return kmeans_objective(values, labels) if kind == "kmeans" else float(medoids(values, labels).costs.sum())
