"""The least fairness weight whose labels are as fair as asked for, each weight begun where another ended."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from clustering.errors import InputError
from clustering.starts import first_lowest
from fairness.groups import Groups
from fairness.metrics import Fairness, cluster_balances

End = TypeVar("End")

_STEP = 4.0
"""Ratio of the weights on the way up."""

_NEAR = 1.1
"""Ratio of a weight that reaches the goal to one that does not, at which the search ends."""

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
    """Where one weight led: labels (N,), their objective, and whatever else is to be kept of it."""

    weight: float
    labels: NDArray[np.int64]
    objective: float
    end: End


class Found(NamedTuple, Generic[End]):
    """Where a search ended.

    Attributes:
        end: what was kept of the weight that is chosen, with its fairness and trial.
        path: all trials, by weight; of several searches those of each.
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

    def search(
        self,
        follow: Callable[[Iterable[float]], Iterator[Ended[End]]],
        groups: Groups,
        clusters: int,
        *,
        first: float,
        last: float,
    ) -> Found[End]:
        """The least weight, up to a tenth, that reaches this: 0, then upwards in steps of 4, then by bisection of the
        logarithm. The error of labels need not fall at every step; those that are returned do reach it, if any did.

        Args:
            follow: where each weight of an iterable leads, before it asks for the next.
            groups: of the points.
            clusters: K.
            first: weight above 0 that is tried first. last: the largest.
        """
        weights, path = _Weights(first, last), []
        best: Found[End] | None = None
        for ended in follow(weights):
            fairness = Fairness.of(groups.counts(ended.labels, clusters), groups)
            missed = self.missed(fairness)
            weights.reached = missed <= _ROUNDING
            trial = Trial(ended.weight, ended.objective, fairness.error, fairness.balance_min, weights.reached)
            path.append(trial)
            # Once it is reached, what reaches it again does so at a lower weight.
            if best is None or trial.reached or (not best.trial.reached and missed < self.missed(best.fairness)):
                best = Found(ended.end, fairness, trial, ())
        assert best is not None
        return best._replace(path=tuple(sorted(path)))

    def nearest(self, found: Iterable[Found[End]]) -> Found[End]:
        """Of several searches the one of the least weight, of equal ones that of the lower objective; where none
        reached this, the one least far off. Its path is that of all of them."""
        every = list(found)
        reached = [one for one in every if one.trial.reached]
        if reached:
            least = min(one.trial.weight for one in reached)
            lowest = [one for one in reached if one.trial.weight == least]
            best = lowest[int(first_lowest([one.trial.objective for one in lowest]))]
        else:
            best = min(every, key=lambda one: self.missed(one.fairness))
        return best._replace(path=tuple(sorted(trial for one in every for trial in one.path)))

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


class _Weights:
    """Weights to try, the next from whether the last reached the goal."""

    def __init__(self, first: float, last: float) -> None:
        self.first, self.last, self.reached = first, last, False

    def __iter__(self) -> Iterator[float]:
        low, high = 0.0, 0.0
        yield high
        while not self._reached():
            if high >= self.last:
                return
            low, high = high, min(_STEP * high, self.last) if high else self.first
            yield high
        while 0 < _NEAR * low < high:
            middle = math.sqrt(low * high)
            yield middle
            low, high = (low, middle) if self._reached() else (middle, high)

    def _reached(self) -> bool:
        return self.reached
