"""Input checks and starts shared by the methods of other authors."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.streams import seed_of
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds
from clustering.starts import first_lowest
from fairness.fit_input import fit_input
from fairness.groups import Groups
from fairness.objectives import Kind
from fairness.reporting import keep_labels
from fairness.rivals.unfair import unfair_centres

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Given(NamedTuple):
    """Points and groups of a fit.

    Attributes:
        values: (N, D) float64, normalised if the estimator is set to.
        groups: groups of the points.
        seed: integer seed of all random draws.
    """

    values: Floats
    groups: Groups
    seed: int

    def seeds(self, estimator: Any, places: Floats | None = None) -> Floats:
        """(T, K, D) k-means++ seeds of the starts, or the array `init`.

        All estimators with this random_state draw the same seeds. Seeds are rows of `places` (N, D) if that is given,
        else of the values.
        """
        rows = Rows.of(torch.from_numpy(self.values if places is None else places))
        seeds: Tensor = first_seeds(
            estimator.init, rows, estimator.n_clusters, estimator.n_init, estimator.random_state
        )
        return (seeds if rows.origin is None else seeds + rows.origin).numpy()


class Course(NamedTuple):
    """Result of one start: labels (N,), centres (K, D), objective of the labels, and costs after each iteration."""

    labels: Ints
    centres: Floats
    objective: float
    history: list[float]


def fit_courses(estimator: Any, data: Given, kind: Kind, run: Callable[[Floats], Course]) -> None:
    """Run a method from the centres of the unfair one for each of the seeds, and set the attributes of the best."""
    watch = Stopwatch()
    seeds = data.seeds(estimator)
    seeding = watch.lap()
    courses = [run(start.values) for start in unfair_centres(kind, data.values, seeds, max_iter=300)]
    estimator.start_objectives_ = np.array([course.objective for course in courses])
    best = courses[int(first_lowest(estimator.start_objectives_))]
    seconds = Seconds(0.0, seeding, watch.lap())
    keep_labels(estimator, best.labels, data.groups, best.objective, best.history, seconds, best.centres)


def given(estimator: Any, X: ArrayLike, sensitive_features: Any, *, two_groups: bool = False, **options: Any) -> Given:
    """Check the parameters and the data of a fit, see `fairness.fit_input.fit_input`.

    Args:
        estimator: also has `random_state`.
        X: (N, D).
        sensitive_features: see `fairness.groups.groups_of`.
        two_groups: whether to reject more than two groups.
        options: arguments of `fairness.groups.groups_of`.

    Raises:
        InputError: a parameter or the data is invalid.
    """
    values, groups = fit_input(estimator, X, sensitive_features, **options)
    if two_groups and len(groups.names) > 2:
        raise InputError(
            f"{type(estimator).__name__} supports two groups, but there are {len(groups.names)}: "
            f"{', '.join(groups.labels()[:6])}; merge groups, or use Bera, FairLloyd or FairAlignment"
        )
    return Given(values.numpy().astype(np.float64), groups, seed_of(estimator.random_state))
