"""Base class of FairKMeans and FairKMedian: starts, a fit along rising weights, fitted attributes and prediction."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import sklearn.cluster
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import TooFewDistinct, first_seeds
from fairness.fit_input import fit_input, warn_if_groups_are_y
from fairness.groups import Groups
from fairness.objectives import Kind, Medoids, kmeans_objective, medoids, objective_of
from fairness.optimiser.moves import Moves, Problem, Stage, near_medians, stage
from fairness.optimiser.weight_search import Ended
from fairness.reporting import keep_fairness
from fairness.weighted import Weighted

_SAMPLE, _MEMBERS = 100_000, 256
"""Size of a sample, and minimum number of its points per cluster. No sample is taken of fewer than twice as many
points."""


class _Data(NamedTuple):
    """Data and starts of a fit.

    Attributes:
        values: (N, D) rows. origin: (D,) their mean.
        problem: all points. part: a sample of n of them if there are many, else all.
        labels: for each start, (n,) labels of the method without fairness.
        seeding: seconds that building all this took.
    """

    values: NDArray[Any]
    origin: NDArray[np.float64]
    problem: Problem
    part: Problem
    labels: list[NDArray[np.int64]]
    seeding: float

    @property
    def groups(self) -> Groups:
        return self.problem.groups

    @property
    def unit(self) -> float:
        """Unit of the weight: cost of all points about one prototype, divided by K."""
        return self.problem.unit

    def seconds(self, total: float, models: int) -> Seconds:
        """Share of each of `models` models in a fit of `total` seconds."""
        return Seconds(0.0, self.seeding / models, (total - self.seeding) / models)

    @property
    def share(self) -> float:
        """Weight for the sample, at which prices are those of all points, relative to the weight for these."""
        return len(self.part.values) / len(self.problem.values)


@dataclass(eq=False, repr=False)
class PrototypeClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Weighted):  # type: ignore[misc]
    """Prototype-based clustering with the groups of each cluster near their target proportions."""

    _: KW_ONLY
    normalize: Literal["l2"] | None = None
    tol: Annotated[float, AtLeast(0)] = 1e-5

    kind: ClassVar[Kind]
    """Which objective, and hence which prototypes, the estimator uses."""

    revision: ClassVar[int] = 2

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
        return self._fit(X, y, sensitive_features)

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
        return self._path(X, weights, sensitive_features, done)

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
        rows = checked_rows(self, X, reset=False, normalize=self.normalize).numpy()
        if sensitive_features is None:
            sizes = self._groups.sizes
            membership = (sizes / sizes[self._groups.attribute_of == 0].sum())[None]
            cells = np.zeros(len(rows), dtype=np.int64)
        else:
            indicators = self._groups.of_others(sensitive_features, len(rows))
            membership, cells = np.unique(indicators, axis=0, return_inverse=True)
        groups = replace(self._groups, cells=cells.ravel(), membership=membership)
        points = Problem(rows - self._origin, groups, int(self.n_clusters), self.kind)
        return points.assigned(self._prototypes, membership @ self.group_prices_)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) Euclidean distances of the rows of X (n, D) to the centres, as in `sklearn.cluster.KMeans`."""
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False, normalize=self.normalize).numpy()
        points = Problem(rows - self._origin, self._groups, int(self.n_clusters), "kmedian")
        return points.costs(slice(None), self._prototypes).astype(rows.dtype)

    def _begin(self, X: Any, features: Any) -> _Data:
        """Check the input and build the starts: the method without fairness from each of the seeds."""
        watch, K = Stopwatch(), int(self.n_clusters)
        rows, groups = fit_input(self, X, features)
        values = rows.numpy()
        origin = values.mean(axis=0, dtype=np.float64)
        problem = part = Problem(values - origin, groups, K, self.kind)
        sampled = sample(groups.cells, K, self.random_state)
        seeds: NDArray[Any] | None = None
        if sampled is not None:
            with suppress(TooFewDistinct):  # the full data may have enough distinct points
                seeds = self._seeds(values[sampled])
                part = Problem(problem.values[sampled], replace(groups, cells=groups.cells[sampled]), K, self.kind)
        if seeds is None:
            seeds = self._seeds(values)
        labels = [self._unfair(part, seed - origin) for seed in seeds]
        return _Data(values, origin, problem, part, labels, watch.lap())

    def _seeds(self, values: NDArray[Any]) -> NDArray[Any]:
        """(T, K, D) initial means."""
        rows = Rows.of(torch.from_numpy(values))
        seeds = first_seeds(self.init, rows, self.n_clusters, self.n_init, self.random_state)
        found: NDArray[Any] = (seeds if rows.origin is None else seeds + rows.origin).numpy()
        return found

    def _unfair(self, problem: Problem, prototypes: NDArray[Any]) -> NDArray[np.int64]:
        """(n,) labels of K-means, or of K-median with geometric medians, from these prototypes (K, D)."""
        if self.kind == "kmedian":
            return near_medians(problem, prototypes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # too few distinct points
            lloyd = sklearn.cluster.KMeans(len(prototypes), init=prototypes, n_init=1)
            labels: NDArray[np.int64] = lloyd.fit(problem.values).labels_.astype(np.int64)
        return labels

    def _ends(
        self, problem: _Data, weights: Sequence[float], done: Callable[[int, int], None] | None = None
    ) -> list[Stage]:
        """Result of the best start at each of the weights: the fewest empty clusters and, of those, the lowest E."""
        best = dict[float, Stage]()
        total, share = len(problem.labels) * len(weights), problem.share
        for start, labels in enumerate(problem.labels):
            stages = self._along(problem.part, {0.0: labels}, [share * weight for weight in weights])
            for i, (weight, found) in enumerate(zip(weights, stages, strict=True)):
                if weight not in best or (found.empty, found.objective) < (best[weight].empty, best[weight].objective):
                    best[weight] = found
                if done is not None:
                    done(start * len(weights) + i + 1, total)
        return [self._with_all(problem, best[weight], weight) for weight in weights]

    def _along(
        self, problem: Problem, results: dict[float, NDArray[np.int64]], weights: Iterable[float]
    ) -> Iterator[Stage]:
        """Yield the result of one start at each of the weights.

        Each begins from the labels at the next lower weight in `results`, to which its own are added.
        """
        for weight in weights:
            reached = max(other for other in results if other <= weight)
            found = stage(Moves(problem, results[reached]), weight, self.max_iter, self.tol, reached)
            results[weight] = found.labels
            yield found

    def _with_all(self, data: _Data, found: Stage, weight: float) -> Stage:
        """The result with all points, from that of a sample with its prototypes and prices."""
        if data.part is data.problem:
            return found
        if weight == 0:
            labels = self._unfair(data.problem, found.prototypes)
        else:
            prices = data.part.groups.membership @ data.part.prices(found.labels, found.prototypes)
            labels = data.problem.assigned(found.prototypes, prices)
        return stage(Moves(data.problem, labels), weight, self.max_iter, self.tol, weight)

    def _trials(self, problem: _Data) -> Callable[[Sequence[float]], Iterable[Ended[Stage]]]:
        starts = [{0.0: labels} for labels in problem.labels]

        def at(weights: Sequence[float]) -> Iterator[Ended[Stage]]:
            for results in starts:
                stages = self._along(problem.part, results, [problem.share * weight for weight in weights])
                for weight, found in zip(weights, stages, strict=True):
                    end = self._with_all(problem, found._replace(weight=weight), weight)
                    yield Ended(weight, end.labels, objective_of(self.kind, problem.values, end.labels), end)

        return at

    def _keep(self, end: Stage, problem: _Data, seconds: Seconds) -> None:
        labels, order = numbered(self, end.labels)
        prototypes, groups = end.prototypes[order], problem.groups
        keep_fairness(self, labels, groups)
        if self.kind == "kmeans":
            self.objective_ = self.inertia_ = kmeans_objective(problem.values, labels)
        else:
            self._keep_medoids(medoids(problem.values, labels))
        self._groups, self._origin, self._prototypes = groups.without_points(), problem.origin, prototypes
        self.cluster_centers_ = (prototypes + problem.origin).astype(problem.values.dtype)
        self._n_features_out = self.n_clusters
        self.fairness_weight_ = end.weight
        self.group_prices_ = (
            problem.problem.prices(labels, prototypes)
            if end.weight > 0
            else np.zeros((len(groups.names), self.n_clusters))
        )
        self.history_, self.n_iter_, self.converged_ = end.history, max(1, len(end.history)), end.converged
        self.seconds_ = seconds

    def _keep_medoids(self, found: Medoids) -> None:
        self.objective_, self.medoid_excess_ = float(found.costs.sum()), found.excess
        self.medoid_indices_ = np.full(self.n_clusters, -1)
        self.medoid_indices_[: len(found.indices)] = found.indices


def sample(cells: NDArray[np.int64], clusters: int, random_state: Any) -> NDArray[np.int64] | None:
    """(n,) ascending indices of a sample with the same share, rounded up, of the points of each cell.

    Starts, and the weights that lead to a weight, differ by far more than their last passes, and a sample is enough to
    compare them. The best goes on with all points.

    Args:
        cells: (N,) cells of the points, 0..C-1.
        clusters: K.
        random_state: as in scikit-learn; not used if no sample is taken.

    Returns:
        The indices, or None if there are too few points for a sample.
    """
    points, size = len(cells), max(_SAMPLE, _MEMBERS * clusters)
    if points < 2 * size:
        return None
    drawn = stream(seed_of(random_state), "fair sample").permutation(points)
    drawn = drawn[cells[drawn].argsort(kind="stable")]
    sizes = np.bincount(cells)
    rank = np.arange(points) - (sizes.cumsum() - sizes)[cells[drawn]]
    return np.sort(drawn[rank < np.ceil(sizes * (size / points))[cells[drawn]]])
