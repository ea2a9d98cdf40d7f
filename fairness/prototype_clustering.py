"""Base class of FairKMeans and FairKMedian: a fit along rising weights, fitted attributes and prediction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from clustering.estimator_input import Device, checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import Above, AtLeast, Within
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.numbering import first_points, order_of
from clustering.optimiser.rows import Rows
from clustering.seeding import TooFewDistinct, first_seeds
from fairness.fit_input import SmallGroups, fit_input, warn_if_groups_are_y, warn_if_one_group
from fairness.groups import Groups, Missing
from fairness.metrics import soft_fairness_error
from fairness.objectives import Kind, Medoids, kmeans_objective, medoids, objective_of
from fairness.optimiser.climb import Course, Stage
from fairness.optimiser.flow_rounding import rounded_assignments
from fairness.optimiser.penalty import Penalty
from fairness.optimiser.points import Points
from fairness.optimiser.prototypes import RULES, Rule
from fairness.optimiser.starts import Starts, sample
from fairness.optimiser.weight_search import Ended, Goal, SearchResult
from fairness.reporting import keep_fairness, warn_if_labels_less_fair
from fairness.trade_off import GRID, path_weights

_AUTOMATIC = 10.0
"""Default weight, in units of the costs about one prototype, per cluster; most data end near their target there."""


class _Problem(NamedTuple):
    """Data and starts of a fit.

    Attributes:
        values: (N, D) rows.
        origin: (D,) point that is subtracted from all rows.
        groups: groups of the points.
        starts: starts of the fit.
        seconds: time that building all this took.
    """

    values: Tensor
    origin: Tensor
    groups: Groups
    starts: Starts
    seconds: float


class PrototypeClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Prototype-based clustering with the groups of each cluster near their target proportions."""

    kind: Kind
    """Which objective, and hence which prototypes, the estimator uses."""

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        fairness_weight: Annotated[float, AtLeast(0)] | Literal["auto"] | None = None,
        max_error: Annotated[float, AtLeast(0)] | None = None,
        min_balance: Annotated[float, Within(0, 1)] | None = None,
        target: Any = None,
        intersectional: bool = False,
        numeric_bins: Any = None,
        missing: Missing = "error",
        small_groups: SmallGroups = "error",
        init: str | ArrayLike = "k-means++",
        n_init: Annotated[int, AtLeast(1)] = 3,
        rungs: Annotated[int, AtLeast(0)] = 10,
        mixing: Annotated[float, Within(0, 1)] = 0.1,
        prototypes: Literal["soft", "hard"] = "soft",
        pseudo_count: Annotated[float, Above(0)] = 1e-3,
        rounding: Literal["argmax", "flow"] = "argmax",
        normalize: Literal["l2"] | None = None,
        max_iter: Annotated[int, AtLeast(1)] = 100,
        tol: Annotated[float, AtLeast(0)] = 1e-5,
        max_sweeps: Annotated[int, AtLeast(1)] = 30,
        sweep_tol: Annotated[float, AtLeast(0)] = 1e-6,
        gap_tol: Annotated[float, AtLeast(0)] = 1e-3,
        device: Device = "cpu",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.fairness_weight = fairness_weight
        self.max_error = max_error
        self.min_balance = min_balance
        self.target = target
        self.intersectional = intersectional
        self.numeric_bins = numeric_bins
        self.missing = missing
        self.small_groups = small_groups
        self.init = init
        self.n_init = n_init
        self.rungs = rungs
        self.mixing = mixing
        self.prototypes = prototypes
        self.pseudo_count = pseudo_count
        self.rounding = rounding
        self.normalize = normalize
        self.max_iter = max_iter
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.sweep_tol = sweep_tol
        self.gap_tol = gap_tol
        self.device = device
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Cluster the rows of X.

        Args:
            X: (N, D) finite; float32 and float64 are kept, other numbers are converted to float32.
            y: ignored, with a warning if `sensitive_features` is None.
            sensitive_features: N values of an attribute, or several attributes, see `fairness.groups.groups_of`.
                None treats all points as one group, which gives the unfair
                method.

        Raises:
            InputError: a parameter, X, the groups, the target or the goal is invalid, or there are fewer distinct
                points than clusters.
        """
        warn_if_groups_are_y(y, sensitive_features)
        watch = Stopwatch()
        problem = self._begin(X, sensitive_features)
        if y is None:
            warn_if_one_group(self, [self.fairness_weight], problem.groups, sensitive_features)
        goal = Goal.of(self, problem.groups)
        if goal is None:
            stage = self._stages(problem, [self.fairness_weight])[0]
        else:
            search = self._search(problem, goal)
            stage, self.weight_path_ = search.end, search.path
            goal.warn_if_missed(search, self.rounding)
        self._keep(stage, problem, Seconds(0.0, problem.seconds, watch.lap() - problem.seconds))
        return self

    @shared_if_large
    def path(
        self,
        X: ArrayLike,
        weights: Sequence[float] | None = None,
        *,
        sensitive_features: Any = None,
        done: Callable[[int, int], None] | None = None,
    ) -> list[Self]:
        """Fitted clones at several weights, from a single fit.

        All weights share the seeds and the unfair solution; each weight starts from the result of the next lower one.

        Args:
            X: as in `fit`.
            weights: values of fairness_weight in any order, which is also the order of the result. None uses
                `fairness.trade_off.GRID`, in units of the cost of all points about one prototype, divided by K.
            sensitive_features: as in `fit`.
            done: callback, called with the number of finished weights over all starts and their total number.

        Raises:
            InputError: as in `fit`, or `weights` is invalid.
        """
        watch, lambdas = Stopwatch(), path_weights(weights)
        problem = self._begin(X, sensitive_features)
        warn_if_one_group(self, lambdas, problem.groups, sensitive_features)
        if weights is None:
            lambdas = [problem.starts.unit * weight for weight in lambdas]
        stages, share = self._stages(problem, lambdas, done), 1 / len(lambdas)
        seconds = Seconds(0.0, problem.seconds * share, (watch.lap() - problem.seconds) * share)
        models = [
            clone(self).set_params(fairness_weight=weight, max_error=None, min_balance=None) for weight in lambdas
        ]
        for model, stage in zip(models, stages, strict=True):
            validate_data(model, X, reset=True, skip_check_array=True)
            model._keep(stage, problem, seconds)
        return models

    def predict(self, X: ArrayLike, *, sensitive_features: Any = None) -> NDArray[np.int64]:
        """(n,) cluster of each new point: the one with the lowest sum of distance cost and group price.

        The prices, one per group and cluster, are those of the fit. For the fitted points the result equals `labels_`,
        except for points between clusters.

        Args:
            X: (n, D).
            sensitive_features: values of the fitted attributes. None averages the prices by the groups' shares in the
                fitted data; the proportions of the groups are then not preserved.
        """
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False, normalize=self.normalize, device=self.device)
        if sensitive_features is None:
            sizes = self._groups.sizes
            membership = (sizes / sizes[self._groups.attribute_of == 0].sum())[None]
            cells = np.zeros(len(rows), dtype=np.int64)
        else:
            indicators = self._groups.of_others(sensitive_features, len(rows))
            membership, cells = np.unique(indicators, axis=0, return_inverse=True)
            cells = cells.ravel()
        points = Points(rows - self._origin.to(rows), torch.from_numpy(cells).to(rows.device), len(membership), self._K)
        prices = torch.from_numpy(membership @ self.group_prices_)
        labels, _ = points.assign(self._rule.cost(self._prototypes), prices)
        return labels.cpu().numpy()

    @property
    def _rule(self) -> Rule:
        return RULES[self.kind]

    @property
    def _K(self) -> int:
        return int(self.n_clusters)

    def _begin(self, X: Any, features: Any) -> _Problem:
        """Check the input and build the starts."""
        watch = Stopwatch()
        values, groups = fit_input(self, X, features)
        origin, cells = values.mean(dim=0), torch.from_numpy(groups.cells).to(values.device)
        all_points = Points(values - origin, cells, len(groups.membership), self._K)
        sampled = sample(groups.cells, self._K, self.random_state)
        subset: Points | None = None
        seeds: Tensor | None = None
        if sampled is not None:
            indices = torch.from_numpy(sampled).to(values.device)
            with suppress(TooFewDistinct):  # the full data may have enough distinct points
                seeds = self._seeds(values[indices]) - origin
                subset = Points(values[indices] - origin, cells[indices], len(groups.membership), self._K)
        if seeds is None:
            seeds = self._seeds(values) - origin
        return _Problem(values, origin, groups, self._starts(groups, all_points, subset, seeds), watch.lap())

    def _starts(self, groups: Groups, points: Points, subset: Points | None, seeds: Tensor) -> Starts:
        penalty = Penalty.of(groups, 1.0, self.pseudo_count)
        limits = self.max_iter, self.tol, self.max_sweeps, self.sweep_tol, self.gap_tol
        course = Course(*limits, self.rungs, self.mixing, self.prototypes == "hard")
        return Starts(points, subset, self._rule, penalty, seeds, course, self._rule.scatter(points) / self._K)

    def _stages(
        self, problem: _Problem, weights: Sequence[Any], done: Callable[[int, int], None] | None = None
    ) -> list[Stage]:
        """Result of the best start at each of the weights."""
        starts = problem.starts
        requested = [starts.unit * _AUTOMATIC if weight is None else float(weight) for weight in weights]
        if problem.groups.trivial:
            requested = [0.0 for _ in requested]
        rising = sorted(set(requested))
        stages = starts.best(rising, partial(self._rounded, starts.points), done)
        best = dict(zip(rising, stages, strict=True))
        return [best[weight] for weight in requested]

    def _search(self, problem: _Problem, goal: Goal) -> SearchResult[Stage]:
        """Search all starts and weights for the cheapest result that reaches the goal."""
        rows, starts = problem.values.cpu().numpy(), problem.starts

        def run(seed: Tensor, weights: Iterable[float], returning: bool) -> Iterator[list[Ended[Stage]]]:
            for stage in starts.along(seed, weights, returning):
                rounded_stage = self._rounded(starts.points, stage)
                labels = rounded_stage.labels.cpu().numpy()
                yield [Ended(stage.weight, labels, objective_of(self.kind, rows, labels), rounded_stage)]

        weights = [0.0] if problem.groups.trivial else [starts.unit * weight for weight in GRID]
        return goal.search([partial(run, seed) for seed in starts.seeds], problem.groups, self._K, weights)

    def _seeds(self, values: Tensor) -> Tensor:
        """(T, K, D) initial prototypes."""
        rows = Rows.of(values)
        seeds = first_seeds(self.init, rows, self._K, self.n_init, self.random_state)
        return seeds if rows.origin is None else seeds + rows.origin

    def _rounded(self, points: Points, stage: Stage) -> Stage:
        if self.rounding == "argmax" or stage.weight == 0:
            return stage._replace(logs=[])
        labels, between = stage.labels.clone(), list(points.between(stage.logs))
        cells = np.repeat(np.arange(len(between)), [len(rows) for rows, _ in between])
        assignments = torch.cat([part for _, part in between]).double().cpu().numpy()
        rounded_labels = rounded_assignments(assignments, cells)
        labels[torch.cat([rows for rows, _ in between])] = torch.from_numpy(rounded_labels).to(labels)
        return stage._replace(labels=labels, logs=[])

    def _numbered(self, stage: Stage) -> Stage:
        """The stage with its clusters renumbered as in `clustering.numbering`."""
        order = torch.from_numpy(order_of(self, first_points(stage.labels.cpu().numpy(), self._K)))
        return stage._replace(
            labels=order.argsort().to(stage.labels.device)[stage.labels],
            prototypes=stage.prototypes[order],
            group_prices=stage.group_prices[:, order],
            counts=stage.counts[:, order],
        )

    def _keep(self, stage: Stage, problem: _Problem, seconds: Seconds) -> None:
        groups, origin = problem.groups, problem.origin
        stage = self._numbered(stage)
        labels, rows = stage.labels.cpu().numpy(), problem.values.cpu().numpy()
        fair = keep_fairness(self, labels, groups)
        self._score(kmeans_objective(rows, labels) if self.kind == "kmeans" else medoids(rows, labels))
        self.soft_fairness_error_ = soft_fairness_error(stage.counts.numpy(), groups)
        if stage.weight > 0:
            warn_if_labels_less_fair(fair, self.soft_fairness_error_, self.rounding)
        self._groups, self._origin, self._prototypes = groups.without_points(), origin, stage.prototypes
        self.cluster_centers_ = (stage.prototypes.to(origin) + origin).cpu().numpy()
        self.fairness_weight_ = stage.weight
        self.relaxed_objective_, self.gap_ = stage.objective, stage.gap
        self.group_prices_ = stage.group_prices.numpy()
        self.history_, self.n_iter_, self.converged_ = stage.history, len(stage.history), stage.converged
        self.seconds_ = seconds

    def _score(self, score: float | Medoids) -> None:
        """Set objective_ and, for medoids, their attributes."""
        if not isinstance(score, Medoids):
            self.objective_ = score
            return
        self.objective_, self.medoid_excess_ = float(score.costs.sum()), score.excess
        self.medoid_indices_ = np.full(self._K, -1)
        self.medoid_indices_[: len(score.indices)] = score.indices
