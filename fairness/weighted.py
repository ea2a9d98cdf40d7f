"""What estimators with a fairness weight share: parameters, a fit at a weight or for a goal, and paths of weights."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils.validation import validate_data

from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast
from clustering.foundation.timing import Seconds, Stopwatch
from fairness.fit_input import SmallGroups, warn_if_one_group
from fairness.groups import Groups
from fairness.optimiser.moves import Problem, Stage, stage
from fairness.optimiser.weight_search import Ended, Goal
from fairness.trade_off import GRID, path_weights

AUTOMATIC = 10.0
"""Default weight in units of the estimator; most data end near their target there."""


Start = dict[float, NDArray[np.int64]]
"""Labels of a start by weight, at first those from which it begins, at 0."""


@dataclass(frozen=True, eq=False)
class Data:
    """Data and starts of a fit.

    Attributes:
        problem: all N points.
        part: a sample of them if there are many, else all.
        starts: the starts of `part`.
        objective: objective of labels (N,).
        seconds_of_graph, seconds_of_seeds: time that building all this took.
    """

    problem: Problem
    part: Problem
    starts: list[Start]
    objective: Callable[[NDArray[np.int64]], float]
    seconds_of_graph: float
    seconds_of_seeds: float

    @property
    def groups(self) -> Groups:
        return self.problem.groups

    @property
    def share(self) -> float:
        """Weight for the sample, at which prices are those of all points, relative to the weight for these."""
        return len(self.part.groups.cells) / len(self.problem.groups.cells)

    def seconds(self, total: float, models: int) -> Seconds:
        """Share of each of `models` models in a fit of `total` seconds."""
        graph, seeds = self.seconds_of_graph, self.seconds_of_seeds
        return Seconds(graph / models, seeds / models, (total - graph - seeds) / models)


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
    tol: Annotated[float, AtLeast(0)] = 1e-5
    random_state: Any = None

    def _fit(self, X: ArrayLike, y: Any, sensitive_features: Any, **given: Any) -> Self:
        """Fit at the weight, or search for one that reaches the goal; `given` are further arguments of `_begin`."""
        watch, goal = Stopwatch(), Goal.of(self)
        data = self._begin(X, sensitive_features, **given)
        groups, unit = data.groups, data.problem.unit
        if goal is not None:
            goal.check_reachable(groups)
        if y is None:
            warn_if_one_group(self, [self.fairness_weight], groups, sensitive_features, stacklevel=5)
        if goal is None:
            weight = unit * AUTOMATIC if self.fairness_weight is None else float(self.fairness_weight)
            end = self._ends(data, [0.0 if groups.trivial else weight])[0]
        else:
            weights = [0.0] if groups.trivial else [unit * weight for weight in GRID]

            def at(weights: Sequence[float]) -> Iterator[Ended[Stage]]:
                for end in self._ends(data, weights):
                    yield Ended(end.weight, end.labels, data.objective(end.labels), end)

            search = goal.search(at, groups, self.n_clusters, weights)
            end, self.weight_path_ = search.end, search.path
        self._keep(end, data, data.seconds(watch.lap(), 1))
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
        data = self._begin(X, sensitive_features, **given)
        warn_if_one_group(self, lambdas, data.groups, sensitive_features, stacklevel=4)
        if weights is None:
            lambdas = [data.problem.unit * weight for weight in lambdas]
        requested = [0.0 if data.groups.trivial else weight for weight in lambdas]
        rising = sorted(set(requested))
        ends = dict(zip(rising, self._ends(data, rising, done), strict=True))
        seconds = data.seconds(watch.lap(), len(lambdas))
        models = [clone(self).set_params(fairness_weight=weight) for weight in lambdas]
        for model, weight in zip(models, requested, strict=True):
            validate_data(model, X, reset=True, skip_check_array=True)
            model._keep(ends[weight], data, seconds)
        return models

    def _ends(
        self, data: Data, weights: Sequence[float], done: Callable[[int, int], None] | None = None
    ) -> list[Stage]:
        """At each of the rising weights, the start with the fewest empty clusters and, of those, the lowest E.

        A start begins at each weight from its labels at the next lower one; a search for a goal calls this repeatedly.
        """
        best = dict[float, Stage]()
        for start, labels in enumerate(data.starts):
            for i, weight in enumerate(weights):
                shared = data.share * weight
                reached = max(other for other in labels if other <= shared)
                found = stage(data.part.moves(labels[reached]), shared, self.max_iter, self.tol, reached)
                labels[shared] = found.labels
                if weight not in best or (found.empty, found.objective) < (best[weight].empty, best[weight].objective):
                    best[weight] = found
                if done is not None:
                    done(start * len(weights) + i + 1, len(data.starts) * len(weights))
        return [self._with_all(data, best[weight], weight) for weight in weights]

    def _with_all(self, data: Data, found: Stage, weight: float) -> Stage:
        """The result with all points, from that of a sample."""
        return found

    @abstractmethod
    def _begin(self, X: Any, features: Any) -> Data:
        """Check the input and build the starts."""

    @abstractmethod
    def _keep(self, end: Stage, data: Data, seconds: Seconds) -> None:
        """Set the fitted attributes."""
