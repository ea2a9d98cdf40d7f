"""The fairness weight whose labels have the lowest objective of all that are as fair as asked for."""

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
"""Ratio of a weight that reaches the goal to one that does not, at which a search between them ends."""

_BEYOND = 10.0
"""Last weight that is tried where none of a path reaches the goal, in units of its largest."""

_ROUNDING = 1e-12
"""Of a goal: what misses it by no more reaches it."""


class Trial(NamedTuple):
    """What the labels of one weight were like.

    Attributes:
        weight: fairness_weight.
        objective: of the labels.
        fairness_error, balance_min: likewise.
        reached: whether they are as fair as asked for.
    """

    weight: float
    objective: float
    fairness_error: float
    balance_min: float
    reached: bool


class Ended(NamedTuple, Generic[End]):
    """Where one start ended at one weight: labels (N,), their objective, and whatever else is to be kept of it."""

    weight: float
    labels: NDArray[np.int64]
    objective: float
    end: End


class Found(NamedTuple, Generic[End]):
    """Where a search ended.

    Attributes:
        end: what was kept of the trial that is chosen, with its fairness and trial.
        path: all trials, by weight.
    """

    end: End
    fairness: Fairness
    trial: Trial
    path: tuple[Trial, ...]


@dataclass(frozen=True)
class Goal:
    """How fair labels are to be.

    Attributes:
        max_error: most fairness error, None: any. min_balance: least balance of a cluster, None: any.
    """

    max_error: float | None
    min_balance: float | None

    @classmethod
    def of(cls, estimator: Any, groups: Groups) -> "Goal | None":
        """The goal of a fit, None where the weight is given.

        Raises:
            InputError: a weight and a goal, neither of them, or a goal that no clustering of these groups can reach.
        """
        goal, name = cls(estimator.max_error, estimator.min_balance), type(estimator).__name__
        if estimator.fairness_weight != "auto":
            if goal != cls(None, None):
                raise InputError(
                    f"{name}: max_error and min_balance choose the weight, but fairness_weight is "
                    f"{estimator.fairness_weight!r}; set fairness_weight='auto', or leave them out"
                )
            return None
        if goal == cls(None, None):
            raise InputError(f"{name}: fairness_weight='auto' needs a goal; set max_error, min_balance or both")
        most = float(cluster_balances(groups.sizes[:, None], groups.attribute_of)[0])
        if goal.min_balance is not None and goal.min_balance > most * (1 + _ROUNDING):
            raise InputError(
                f"{name}: min_balance={goal.min_balance:g} cannot be: the balance of the data is {most:.6g}, and some "
                "cluster is no more balanced than they are; set min_balance to less"
            )
        # Clusters weighted by their sizes have the data's shares on average, and KL is convex.
        shares = groups.sizes / groups.sizes[groups.attribute_of == 0].sum()
        least = float((groups.target * np.log(groups.target / shares)).sum())
        if goal.max_error is not None and goal.max_error < least * (1 - _ROUNDING) - _ROUNDING:
            raise InputError(
                f"{name}: max_error={goal.max_error:g} cannot be: the target is not the data's, and so no clustering "
                f"has an error below {least:.6g}; set max_error to more"
            )
        return goal

    def missed(self, found: Fairness) -> float:
        """By how much labels are less fair than this; 0 or less where they are not."""
        error = -math.inf if self.max_error is None else found.error - self.max_error
        balance = -math.inf if self.min_balance is None else self.min_balance - found.balance_min
        return max(error, balance)

    def search(self, runs: Sequence["Run[End]"], groups: Groups, clusters: int, weights: Sequence[float]) -> Found[End]:
        """Of all that was tried what has the lowest objective and reaches this, of equal ones that of the least weight;
        the least far off where nothing reaches it.

        Tried are the weights of a path, by every start, as that path has them. Then every run that could still be lower
        looks between its cheapest weight that reaches this and the one below, by bisection of the logarithm.

        Args:
            runs: where weights lead.
            groups: of the points.
            clusters: K.
            weights: of the path, rising.
        """
        search: _Search[End] = _Search(self, groups, clusters)
        paths = [search.follow(run(_Path(search, weights), False)) for run in runs]
        # Those that are nearest to an end first: what they find spares the others.
        for trials, run in sorted(zip(paths, runs, strict=True), key=lambda one: _cheapest(one[0])):
            low, high = _about_the_cheapest(trials)
            floor = min((trial.objective for trial in trials if trial.weight == low), default=math.inf)
            if 0 < low * _NEAR < high and search.could_be(floor):
                search.follow(run(_Between(search, low, high), True))
        assert search.best is not None
        return search.best._replace(path=tuple(sorted(search.path)))

    def warn_if_missed(self, found: Found[Any], rounding: str) -> None:
        """Warn where the best is not as fair as this, of labels that were rounded so."""
        if not found.trial.reached:
            goals = {"max_error": self.max_error, "min_balance": self.min_balance}
            others = " or more n_init" if rounding == "flow" else ", more n_init or rounding='flow'"
            asked = " and ".join(f"{name}={value:g}" for name, value in goals.items() if value is not None)
            warnings.warn(
                f"no weight reached {asked}: the nearest labels have an error of {found.trial.fairness_error:.4g} and "
                f"a least balance of {found.trial.balance_min:.4g}; ask for less, or set fewer n_clusters{others}",
                ConvergenceWarning,
                stacklevel=4,
            )


Run = Callable[[Iterable[float], bool], Iterator[Sequence[Ended[End]]]]
"""Where one start or several lead at each weight of an iterable, before they ask for the next, and whether a lower
weight may follow."""


class _Search(Generic[End]):
    """What has been tried, and the best of it."""

    def __init__(self, goal: Goal, groups: Groups, clusters: int) -> None:
        self.goal, self.groups, self.clusters = goal, groups, clusters
        self.path: list[Trial] = []
        self.best: Found[End] | None = None
        self.reached = False  # by the last weight, of the run that is on

    def follow(self, run: Iterator[Sequence[Ended[End]]]) -> list[Trial]:
        """Try where a run leads: its trials."""
        first = len(self.path)
        for ends in run:
            judged = [self._judge(ended) for ended in ends]
            self.reached = any(judged)
        return self.path[first:]

    def could_be(self, objective: float) -> bool:
        """Whether what is not cheaper than this could be better than the best."""
        return self.best is None or objective < self.best.trial.objective

    def _judge(self, ended: Ended[End]) -> bool:
        fairness = Fairness.of(self.groups.counts(ended.labels, self.clusters), self.groups)
        reached = self.goal.missed(fairness) <= _ROUNDING
        trial = Trial(ended.weight, ended.objective, fairness.error, fairness.balance_min, reached)
        self.path.append(trial)
        if self._better(trial, fairness):
            self.best = Found(ended.end, fairness, trial, ())
        return reached

    def _better(self, trial: Trial, fairness: Fairness) -> bool:
        best = self.best
        if best is None or trial.reached != best.trial.reached or fairness.empty != best.fairness.empty:
            return best is None or (fairness.empty, not trial.reached) < (best.fairness.empty, not best.trial.reached)
        if not trial.reached:  # by balance alone many labels are as far off: clusters lack a group
            return (self.goal.missed(fairness), fairness.error) < (self.goal.missed(best.fairness), best.fairness.error)
        same = rounding(torch.float64) * abs(best.trial.objective)
        if abs(trial.objective - best.trial.objective) <= same:
            return trial.weight < best.trial.weight
        return trial.objective < best.trial.objective


@dataclass(frozen=True)
class _Path:
    """Rising weights, and one more where none of them reached the goal."""

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
    """Weights between one that does not reach the goal, which is the first, and one that does."""

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


def _about_the_cheapest(trials: Sequence[Trial]) -> tuple[float, float]:
    """The weight of the cheapest trial that reaches the goal, and the largest below it; 0 twice where none does."""
    reached = [(trial.objective, trial.weight) for trial in trials if trial.reached]
    high = min(reached)[1] if reached else 0.0
    return max((trial.weight for trial in trials if trial.weight < high), default=0.0), high
