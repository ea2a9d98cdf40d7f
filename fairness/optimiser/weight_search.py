"""Search for the fairness weight whose labels have the lowest objective among those that reach a fairness goal."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from clustering.foundation.errors import InputError
from clustering.starts import rounding
from fairness.groups import Groups
from fairness.metrics import Fairness, cluster_balances

End = TypeVar("End")

_NEAR = 1.005
"""A search stops when a weight that reaches the goal is within this ratio of one that does not."""

_BEYOND = 10.0
"""Last weight tried if no weight of a path reaches the goal, in units of the largest one."""

_ROUNDING = 1e-12
"""Tolerance of a goal: labels that miss it by no more count as reaching it."""


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
    """Result of a search.

    Attributes:
        end: fitted state of the chosen trial.
        fairness: fairness of its labels.
        trial: the chosen trial.
        path: all trials, by weight.
    """

    end: End
    fairness: Fairness
    trial: Trial
    path: tuple[Trial, ...]


@dataclass(frozen=True)
class Goal:
    """Fairness that labels must reach.

    Attributes:
        max_error: largest fairness error; None sets no limit.
        min_balance: smallest balance of a cluster; None sets no limit.
    """

    max_error: float | None
    min_balance: float | None

    @classmethod
    def of(cls, estimator: Any, groups: Groups) -> "Goal | None":
        """The goal of a fit; None if the fit has a fixed weight.

        Raises:
            InputError: the fit has both a weight and a goal, or neither, or no clustering of these groups can reach the
                goal.
        """
        goal, name = cls(estimator.max_error, estimator.min_balance), type(estimator).__name__
        if estimator.fairness_weight != "auto":
            if goal != cls(None, None):
                raise InputError(
                    f"{name}: max_error and min_balance choose the weight, but fairness_weight is "
                    f"{estimator.fairness_weight!r}; set fairness_weight='auto', or remove the goal"
                )
            return None
        if goal == cls(None, None):
            raise InputError(f"{name}: fairness_weight='auto' needs a goal; set max_error, min_balance or both")
        highest = float(cluster_balances(groups.sizes[:, None], groups.attribute_of)[0])
        if goal.min_balance is not None and goal.min_balance > highest * (1 + _ROUNDING):
            raise InputError(
                f"{name}: min_balance={goal.min_balance:g} is unreachable: the balance of the data, "
                f"{highest:.6g}, is the largest possible minimum over clusters; lower min_balance"
            )
        # The size-weighted mean of the clusters' shares equals the shares in the data, and KL is convex.
        shares = groups.sizes / groups.sizes[groups.attribute_of == 0].sum()
        least = float((groups.target * np.log(groups.target / shares)).sum())
        if goal.max_error is not None and goal.max_error < least * (1 - _ROUNDING) - _ROUNDING:
            raise InputError(
                f"{name}: max_error={goal.max_error:g} is unreachable: the target differs from the shares in "
                f"the data, so every clustering has an error of at least {least:.6g}; raise max_error"
            )
        return goal

    def missed(self, fairness: Fairness) -> float:
        """By how much labels miss the goal; 0 or less if they reach it."""
        error = -math.inf if self.max_error is None else fairness.error - self.max_error
        balance = -math.inf if self.min_balance is None else self.min_balance - fairness.balance_min
        return max(error, balance)

    def search(
        self, runs: Sequence["Run[End]"], groups: Groups, clusters: int, weights: Sequence[float]
    ) -> SearchResult[End]:
        """Find the result with the lowest objective that reaches the goal.

        Equal objectives are decided by the smaller weight. If no result reaches the goal, the one that misses it least
        is chosen. First, every start follows the weights of the path. Then each run that could still improve on the
        best refines between its cheapest weight that reaches the goal and the next lower weight, by bisection of the
        logarithm.

        Args:
            runs: functions that fit at the weights they are given.
            groups: groups of the points.
            clusters: K.
            weights: weights of the path, rising.
        """
        search: _Search[End] = _Search(self, groups, clusters)
        paths = [search.follow(run(_Path(search, weights))) for run in runs]
        # Cheapest runs first: a better incumbent rules out more of the others.
        for trials, run in sorted(zip(paths, runs, strict=True), key=lambda pair: _cheapest(pair[0])):
            low, high = _around_cheapest(trials)
            floor = min((trial.objective for trial in trials if trial.weight == low), default=math.inf)
            if 0 < low * _NEAR < high and search.could_be(floor):
                search.follow(run(_Between(search, low, high)))
        assert search.best is not None
        return search.best._replace(path=tuple(sorted(search.path)))

    def warn_if_missed(self, result: SearchResult[Any], *, remedy: str = "") -> None:
        """Warn if the best result misses the goal; `remedy` is one more than fewer clusters and more starts."""
        if not result.trial.reached:
            goals = {"max_error": self.max_error, "min_balance": self.min_balance}
            others = f", more n_init or {remedy}" if remedy else " or more n_init"
            goal = " and ".join(f"{name}={value:g}" for name, value in goals.items() if value is not None)
            warnings.warn(
                f"no weight reached {goal}: the closest labels have an error of "
                f"{result.trial.fairness_error:.4g} and a minimum balance of {result.trial.balance_min:.4g}; "
                f"relax the goal, or set fewer n_clusters{others}",
                ConvergenceWarning,
                stacklevel=4,
            )


Run = Callable[[Iterable[float]], Iterator[Sequence[Ended[End]]]]
"""Fits one or more starts at each weight of an iterable, which may rise and fall, and yields the results before it
consumes the next weight."""


class _Search(Generic[End]):
    """Trials of a search and the best of them."""

    def __init__(self, goal: Goal, groups: Groups, clusters: int) -> None:
        self.goal, self.groups, self.clusters = goal, groups, clusters
        self.path: list[Trial] = []
        self.best: SearchResult[End] | None = None
        self.reached = False  # whether the last weight of the current run reached the goal

    def follow(self, run: Iterator[Sequence[Ended[End]]]) -> list[Trial]:
        """Consume the results of a run and return its trials."""
        first = len(self.path)
        for ends in run:
            judged = [self._judge(ended) for ended in ends]
            self.reached = any(judged)
        return self.path[first:]

    def could_be(self, objective: float) -> bool:
        """Whether a result with at least this objective could still be better than the best."""
        return self.best is None or objective < self.best.trial.objective

    def _judge(self, ended: Ended[End]) -> bool:
        fairness = Fairness.of(self.groups.counts(ended.labels, self.clusters), self.groups)
        reached = self.goal.missed(fairness) <= _ROUNDING
        trial = Trial(ended.weight, ended.objective, fairness.error, fairness.balance_min, reached)
        self.path.append(trial)
        if self._better(trial, fairness):
            self.best = SearchResult(ended.end, fairness, trial, ())
        return reached

    def _better(self, trial: Trial, fairness: Fairness) -> bool:
        best = self.best
        if best is None or trial.reached != best.trial.reached or fairness.empty != best.fairness.empty:
            return best is None or (fairness.empty, not trial.reached) < (best.fairness.empty, not best.trial.reached)
        if not trial.reached:  # the error breaks ties: wherever a cluster lacks a group, the balance is 0
            return (self.goal.missed(fairness), fairness.error) < (self.goal.missed(best.fairness), best.fairness.error)
        tolerance = rounding(torch.float64) * abs(best.trial.objective)
        if abs(trial.objective - best.trial.objective) <= tolerance:
            return trial.weight < best.trial.weight
        return trial.objective < best.trial.objective


@dataclass(frozen=True)
class _Path:
    """Rising weights, followed by a larger one if none of them reached the goal."""

    search: _Search[Any]
    weights: Sequence[float]

    def __iter__(self) -> Iterator[float]:
        reached = False
        for weight in self.weights:
            yield weight
            reached = reached or self.search.reached
        if not reached and self.weights[-1] > 0:
            yield _BEYOND * self.weights[-1]


@dataclass(frozen=True)
class _Between:
    """Bisection between a weight that misses the goal, which comes first, and one that reaches it."""

    search: _Search[Any]
    low: float
    high: float

    def __iter__(self) -> Iterator[float]:
        low, high = self.low, self.high
        yield low
        while _NEAR * low < high:
            middle = math.sqrt(low * high)
            yield middle
            low, high = (low, middle) if self.search.reached else (middle, high)


def _cheapest(trials: Sequence[Trial]) -> float:
    return min((trial.objective for trial in trials if trial.reached), default=math.inf)


def _around_cheapest(trials: Sequence[Trial]) -> tuple[float, float]:
    """The next lower weight and the weight of the cheapest trial that reaches the goal; 0 and 0 if none does."""
    reached = [(trial.objective, trial.weight) for trial in trials if trial.reached]
    high = min(reached)[1] if reached else 0.0
    return max((trial.weight for trial in trials if trial.weight < high), default=0.0), high
