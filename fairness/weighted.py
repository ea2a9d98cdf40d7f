"""What estimators with a fairness weight share: parameters, a fit at a weight or for a goal, and paths of weights."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils.validation import validate_data

from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast
from clustering.foundation.timing import Seconds, Stopwatch
from fairness.fit_input import SmallGroups, warn_if_one_group
from fairness.optimiser.weight_search import Ended, Goal
from fairness.trade_off import GRID, path_weights

AUTOMATIC = 10.0
"""Default weight in units of the estimator; most data end near their target there."""


@dataclass(eq=False, repr=False)
class Weighted(ClusterMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Clustering with the groups of each cluster near their target proportions, as closely as a weight demands."""

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    fairness_weight: Any = None
    target: Any = None
    intersectional: bool = False
    small_groups: SmallGroups = "error"
    init: str | ArrayLike = "k-means++"
    n_init: Annotated[int, AtLeast(1)] = 3
    max_iter: Annotated[int, AtLeast(1)] = 300
    random_state: Any = None

    def _fit(self, X: ArrayLike, y: Any, sensitive_features: Any, **given: Any) -> Self:
        """Fit at the weight, or search for one that reaches the goal; `given` are further arguments of `_begin`."""
        watch, goal = Stopwatch(), Goal.of(self)
        problem = self._begin(X, sensitive_features, **given)
        groups = problem.groups
        if goal is not None:
            goal.check_reachable(groups)
        if y is None:
            warn_if_one_group(self, [self.fairness_weight], groups, sensitive_features, stacklevel=5)
        if goal is None:
            weight = problem.unit * AUTOMATIC if self.fairness_weight is None else float(self.fairness_weight)
            end = self._ends(problem, [0.0 if groups.trivial else weight])[0]
        else:
            weights = [0.0] if groups.trivial else [problem.unit * weight for weight in GRID]
            remedy = "rounding='flow'" if getattr(self, "rounding", "flow") == "argmax" else ""

            def at(weights: Sequence[float]) -> Iterator[Ended[Any]]:
                for end in self._ends(problem, weights):
                    yield Ended(end.weight, end.labels, problem.objective(end.labels), end)

            search = goal.search(at, groups, self.n_clusters, weights, remedy=remedy)
            end, self.weight_path_ = search.end, search.path
        self._keep(end, problem, problem.seconds(watch.lap(), 1))
        return self

    @shared_if_large
    def path(
        self,
        X: ArrayLike,
        weights: Sequence[float] | None = None,
        *,
        sensitive_features: Any = None,
        done: Callable[[int, int], None] | None = None,
        **given: Any,
    ) -> list[Self]:
        """Fitted clones at several weights, from a single fit.

        All weights share the seeds (and the graph) and the unfair solution; each weight starts from the result of the
        next lower one.

        Args:
            X: as in `fit`.
            weights: values of fairness_weight in any order, which is also the order of the result. None uses
                `fairness.trade_off.GRID`, in the unit of the default weight.
            sensitive_features: as in `fit`.
            done: callback, called with the number of finished weights, over all starts, and their total number.
            given: further arguments of `fit`, such as the graph of FairNcut.

        Raises:
            InputError: as in `fit`, or `weights` is invalid.
        """
        watch, lambdas = Stopwatch(), path_weights(weights)
        problem = self._begin(X, sensitive_features, **given)
        warn_if_one_group(self, lambdas, problem.groups, sensitive_features, stacklevel=4)
        if weights is None:
            lambdas = [problem.unit * weight for weight in lambdas]
        requested = [0.0 if problem.groups.trivial else weight for weight in lambdas]
        rising = sorted(set(requested))
        ends = dict(zip(rising, self._ends(problem, rising, done), strict=True))
        seconds = problem.seconds(watch.lap(), len(lambdas))
        models = [clone(self).set_params(fairness_weight=weight) for weight in lambdas]
        for model, weight in zip(models, requested, strict=True):
            validate_data(model, X, reset=True, skip_check_array=True)
            model._keep(ends[weight], problem, seconds)
        return models

    @abstractmethod
    def _begin(self, X: Any, features: Any) -> Any:
        """Check the input and build the starts: what is fitted, with `groups`, the `unit` of the weight, `objective` of
        labels, and `seconds`."""

    @abstractmethod
    def _ends(
        self, problem: Any, weights: Sequence[float], done: Callable[[int, int], None] | None = None
    ) -> list[Any]:
        """Result of the best start at each of the rising weights, with `weight` and `labels`; a search for a goal calls
        it several times."""

    @abstractmethod
    def _keep(self, end: Any, problem: Any, seconds: Seconds) -> None:
        """Set the fitted attributes."""
