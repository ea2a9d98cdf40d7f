"""Pseudo-labels of given predictions as a clustering method, by several solvers to the same relative accuracy.

Newton's method without regard to the structure of the problem is included for comparison.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data
from torch import Tensor

from clustering.deep.fair_pseudo_labels import (
    FLOOR,
    PseudoLabels,
    em_pseudo_labels,
    exact_pseudo_labels,
    fair_objective,
)
from clustering.deep.settings import checked_prior
from clustering.estimator_input import check_no_dates
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch

LARGEST = 6000
"""Maximum number of unknowns of a Newton step, which solves a dense system with 8 bytes times their number squared."""


@dataclass(eq=False, repr=False)
class FairAssignment(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters with the sizes of a prior, close to given predictions (Zhang and Boykov, eq. 42 for fixed predictions).

    Parameters
    ----------
    n_clusters : number of clusters K, which must be the number of columns.
    fairness_weight : lambda > 0.
    prior : (K,) expected relative sizes of the clusters, above 0, or "balanced".
    solver : "em" as in the paper; "exact", Newton steps with one unknown per class; "newton", Newton steps on all N (K
        - 1) labels.
    tolerance : largest distance of the objective from its minimum, as a share of 1 + fairness_weight. The exact solver
        computes a bound on it, and Newton's method an estimate; for EM the necessary number of steps is determined
        first.
    max_iter : maximum number of steps.

    Attributes
    ----------
    labels_ : (N,) int, most probable cluster. assignments_ : (N, K) the pseudo-labels.
    objective_ : value of the objective. n_iter_ : number of steps. n_features_in_ : K.
    seconds_ : `clustering.foundation.timing.Seconds` of the steps only.
    """

    n_clusters: Annotated[int, AtLeast(2)] = 8
    _: KW_ONLY
    fairness_weight: Annotated[float, Above(0)] = 100.0
    prior: str | ArrayLike = "balanced"
    solver: Literal["em", "exact", "newton"] = "exact"
    tolerance: Annotated[float, Above(0)] = 1e-3
    max_iter: Annotated[int, AtLeast(1)] = 1000

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Assign the rows of X, (N, K) scores whose softmax are the predictions; `y` is ignored, as in scikit-learn.

        Raises:
            InputError: a parameter or X is invalid, the number of columns differs from n_clusters, or EM does not reach
                the tolerance within max_iter steps.
        """
        validate_signature(self)
        check_no_dates(X)
        scores = torch.from_numpy(validate_data(self, X, dtype=np.float64, ensure_min_samples=2))
        if scores.shape[1] != self.n_clusters:
            raise InputError(
                f"FairAssignment: rows must have one score per cluster, but there are {scores.shape[1]} for "
                f"n_clusters={self.n_clusters}; change n_clusters, or use another method"
            )
        prior = checked_prior(self.prior, self.n_clusters).to(scores)
        log_p, weight = torch.log_softmax(scores, dim=1), self.fairness_weight
        solve, tolerance, steps = SOLVERS[self.solver], self.tolerance, self.max_iter
        if self.solver == "em":
            if (enough := em_steps(log_p, weight, prior, tolerance, steps)) is None:
                raise InputError(
                    f"FairAssignment: {steps} steps of EM end more than {tolerance:g} above the minimum; raise "
                    "max_iter or tolerance, or set solver to exact"
                )
            tolerance, steps = 0.0, enough
        watch = Stopwatch()
        solution = solve(log_p, weight, prior, tolerance=tolerance, max_iterations=steps)
        self.seconds_ = Seconds(0.0, 0.0, watch.lap())
        self.assignments_ = solution.labels.numpy()
        self.labels_ = self.assignments_.argmax(1)
        self.n_iter_ = int(solution.iterations)
        self.objective_ = float(fair_objective(solution.labels, log_p, weight, prior))
        return self


def em_steps(log_p: Tensor, fairness: float, prior: Tensor, tolerance: float, max_steps: int) -> int | None:
    """Number of EM steps after which the objective is within this share of 1 + fairness of its minimum; None if it
    exceeds `max_steps`.

    Found by bisection, since no step raises the objective.
    """
    least = float(fair_objective(exact_pseudo_labels(log_p, fairness, prior).labels, log_p, fairness, prior))

    def near(steps: int) -> bool:
        labels = em_pseudo_labels(log_p, fairness, prior, tolerance=0, max_iterations=steps).labels
        return float(fair_objective(labels, log_p, fairness, prior)) - least <= tolerance * (1 + fairness)

    high = 1
    while not near(high):
        if high == max_steps:
            return None
        high = min(2 * high, max_steps)
    return bisect_left(range(high), True, lo=high // 2 + 1, key=near)


def newton_pseudo_labels(
    log_p: Tensor, fairness: float, prior: Tensor, *, tolerance: float = 1e-6, max_iterations: int = 100
) -> PseudoLabels:
    """Pseudo-labels by damped Newton steps from the predictions, on all labels of a point except the last.

    Args:
        log_p: (N, K) float64. fairness, prior: as in `em_pseudo_labels`.
        tolerance: half of the Newton decrement, as a share of 1 + fairness; it estimates the distance of the objective
            from its minimum.

    Raises:
        InputError: there are more than `LARGEST` unknowns; a step costs (N K)^3 / 3 multiply-adds.
    """
    points, classes = log_p.shape
    size = points * (classes - 1)
    if size > LARGEST:
        raise InputError(
            f"Newton's method has {points:,} x {classes - 1:,} unknowns, but at most {LARGEST:,} are supported; "
            "set solver to exact or em"
        )
    p = log_p.exp().clamp_min(FLOOR)
    y = p = p / p.sum(1, keepdim=True)
    rows, columns = torch.arange(points), torch.arange(classes - 1)
    steps = 0
    for steps in range(max_iterations + 1):
        ybar = y.mean(0)
        slope = -p / (points * y) - fairness * prior / (points * ybar)
        own, shared = p / (points * y.square()), fairness * prior / (points * ybar).square()
        slope = slope[:, :-1] - slope[:, -1:]
        hessian = shared[-1].expand(points, classes - 1, points, classes - 1).clone()
        hessian[rows, :, rows, :] += own[:, -1, None, None]
        hessian[:, columns, :, columns] += shared[:-1, None, None]
        hessian[rows[:, None], columns, rows[:, None], columns] += own[:, :-1]
        step = torch.linalg.solve(hessian.view(size, size), -slope.reshape(size)).view_as(slope)
        decrement = float(-(slope * step).sum())
        if decrement / 2 <= tolerance * (1 + fairness) or steps == max_iterations:
            break
        step = torch.cat([step, -step.sum(1, keepdim=True)], dim=1)
        length = min(1.0, 0.99 / float((-step / y).max().clamp_min(FLOOR)))
        before = fair_objective(y, log_p, fairness, prior)
        while fair_objective(y + length * step, log_p, fairness, prior) > before - 0.1 * length * decrement:
            length /= 2
        y = y + length * step
    converged = torch.tensor(decrement / 2 <= tolerance * (1 + fairness))
    return PseudoLabels(y, torch.tensor(steps), converged)


SOLVERS: dict[str, Callable[..., PseudoLabels]] = {
    "em": em_pseudo_labels,
    "exact": exact_pseudo_labels,
    "newton": newton_pseudo_labels,
}
