"""Search for the fairness weight whose labels have the lowest objective among those that reach a fairness goal."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import LARGEST_OF_ESTIMATORS, AtLeast, Within, mismatch
from fairness.groups import Groups
from fairness.metrics import Fairness, cluster_balances

End = TypeVar("End")

_NEAR = 1.005
"""A search stops when a weight that reaches the goal is within this ratio of one that does not."""

_BEYOND = 10.0
"""Last weight tried if no weight of a path reaches the goal, in units of the largest one."""

_ROUNDING = 1e-12
"""Tolerance of a goal: labels that miss it by no more count as reaching it. Objectives that differ by no more, as a
share, count as equal."""

_LIMITS = {"max_error": Annotated[float, AtLeast(0)], "min_balance": Annotated[float, Within(0, 1)]}


class Trial(NamedTuple):
    """Labels at one weight.

    Attributes:
        weight: fairness_weight.
        objective: objective of the labels.
        fairness_error, balance_min: fairness of the labels.
        reached: whether the labels reach the goal.
    """

    weight: float
    objective: float
    fairness_error: float
    balance_min: float
    reached: bool


class Ended(NamedTuple, Generic[End]):
    """Result of one start at one weight: labels (N,), their objective, and the fitted state `end`."""

    weight: float
    labels: NDArray[np.int64]
    objective: float
    end: End


class SearchResult(NamedTuple, Generic[End]):
    """Result of a search: fitted state and trial that are chosen, and all trials by weight."""

    end: End
    trial: Trial
    path: tuple[Trial, ...]


@dataclass(frozen=True)
class Goal:
    """Fairness that labels must reach.

    Attributes:
        max_error: largest fairness error; None sets no limit.
        min_balance: smallest balance of a cluster; None sets no limit.
    """

    max_error: float | None = None
    min_balance: float | None = None

    @classmethod
    def of(cls, estimator: Any) -> "Goal | None":
        """The goal of a fit, the `fairness_weight` that is a mapping; None if it is a number or None.

        Raises:
            InputError: the weight or the goal is invalid.
        """
        weight, name = estimator.fairness_weight, type(estimator).__name__
        if not isinstance(weight, Mapping):
            problem = mismatch(weight, Annotated[float, AtLeast(0)] | None, LARGEST_OF_ESTIMATORS)
            if problem:
                raise InputError(
                    f"{name}: fairness_weight must be {problem}, or a goal such as {{'min_balance': 0.4}}, not "
                    f"{weight!r}"
                )
            return None
        if not weight or not set(weight) <= set(_LIMITS):
            raise InputError(f"{name}: the goal in fairness_weight is max_error, min_balance or both, not {weight!r}")
        for limit, value in weight.items():
            if problem := mismatch(value, _LIMITS[limit]):
                raise InputError(f"{name}: {limit} must be {problem}, not {value!r}")
        return cls(**weight)

    def check_reachable(self, groups: Groups) -> None:
        """Raise InputError if no clustering of these groups can reach the goal."""
        highest = float(cluster_balances(groups.sizes[:, None], groups.attribute_of)[0])
        if self.min_balance is not None and self.min_balance > highest * (1 + _ROUNDING):
            raise InputError(
                f"min_balance={self.min_balance:g} is unreachable: the balance of the data, "
                f"{highest:.6g}, is the largest possible minimum over clusters; lower min_balance"
            )
        # The size-weighted mean of the clusters' shares equals the shares in the data, and KL is convex.
        shares = groups.sizes / groups.sizes[groups.attribute_of == 0].sum()
        least = float((groups.target * np.log(groups.target / shares)).sum())
        if self.max_error is not None and self.max_error < least * (1 - _ROUNDING) - _ROUNDING:
            raise InputError(
                f"max_error={self.max_error:g} is unreachable: the target differs from the shares in "
                f"the data, so every clustering has an error of at least {least:.6g}; raise max_error"
            )

    def missed(self, fairness: Fairness) -> float:
        """By how much labels miss the goal; 0 or less if they reach it."""
        error = -math.inf if self.max_error is None else fairness.error - self.max_error
        balance = -math.inf if self.min_balance is None else self.min_balance - fairness.balance_min
        return max(error, balance)

    def search(
        self,
        at: Callable[[Sequence[float]], Iterable[Ended[End]]],
        groups: Groups,
        clusters: int,
        weights: Sequence[float],
    ) -> SearchResult[End]:
        """Find the result with the lowest objective that reaches the goal.

        First the weights of the path are tried, then weights between the cheapest one that reaches the goal and the
        next lower one, by bisection of the logarithm. Equal objectives are decided by the smaller weight. If no result
        reaches the goal, the one that misses it least is chosen, with a warning.

        Args:
            at: fits all starts at rising weights.
            groups: groups of the points.
            clusters: K.
            weights: weights of the path, rising.

        Warns: ConvergenceWarning: no result reaches the goal.
        """
        found: list[tuple[tuple[Any, ...], Trial, End]] = []

        def reached(tried: Sequence[float]) -> bool:
            before = len(found)
            for ended in at(tried):
                fairness = Fairness.of(groups.counts(ended.labels, clusters), groups)
                missed = self.missed(fairness)
                enough = missed <= _ROUNDING
                trial = Trial(ended.weight, ended.objective, fairness.error, fairness.balance_min, enough)
                # The error breaks ties: wherever a cluster lacks a group, the balance is 0.
                costs = (ended.objective,) if enough else (missed, fairness.error)
                found.append(((fairness.empty, not enough, *costs), trial, ended.end))
            return any(trial.reached for _, trial, _ in found[before:])

        if not reached(weights) and weights[-1] > 0:
            reached([_BEYOND * weights[-1]])
        _, best, _ = min(found, key=lambda each: each[0])
        low, high = max((weight for weight in weights if weight < best.weight), default=0.0), best.weight
        while best.reached and 0 < low * _NEAR < high:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if reached([middle]) else (middle, high)
        order, best, _ = min(found, key=lambda each: each[0])
        equal = order if not best.reached else (*order[:2], order[2] + _ROUNDING * abs(order[2]))
        _, best, end = min((each for each in found if each[0] <= equal), key=lambda each: each[1].weight)
        if not best.reached:
            goal = " and ".join(f"{name}={value:g}" for name, value in vars(self).items() if value is not None)
            warnings.warn(
                f"no weight reached {goal}: the closest labels have an error of {best.fairness_error:.4g} and a "
                f"minimum balance of {best.balance_min:.4g}; relax the goal, or set fewer n_clusters or more n_init",
                ConvergenceWarning,
                stacklevel=5,
            )
        return SearchResult(end, best, tuple(sorted(trial for _, trial, _ in found)))
