"""Fair K-means and K-median (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as scikit-learn estimators.

Their base class builds starts, fits along rising weights, sets fitted attributes and predicts.
"""

import warnings
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import sklearn.cluster
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.numbering import numbered
from clustering.seeding import TooFewDistinct
from fairness.fit_input import fit_input, seeds_among, warn_if_groups_are_y
from fairness.groups import stratified
from fairness.objectives import Kind, Medoids, distances, kmeans_objective, medoids, objective_of
from fairness.optimiser.moves import Stage, stage
from fairness.optimiser.prototype_moves import PrototypeProblem, near_medians
from fairness.reporting import keep_fairness
from fairness.weighted import Data, Weighted

_SAMPLE: dict[Kind, int] = {"kmeans": 10_000, "kmedian": 100_000}
_MEMBERS = 256
"""Size of a sample, and minimum number of its points per cluster. No sample is taken of fewer than twice as many
points."""


@dataclass(frozen=True, eq=False)
class _Points(Data):
    """Data of points with prototypes: `values` (N, D) are the rows, and `origin` (D,) their mean."""

    problem: PrototypeProblem
    part: PrototypeProblem
    _: KW_ONLY
    values: NDArray[Any]
    origin: NDArray[np.float64]


@dataclass(eq=False, repr=False)
class PrototypeClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Weighted):  # type: ignore[misc]
    """Prototype-based clustering with the groups of each cluster near their target proportions."""

    _: KW_ONLY
    normalize: Literal["l2"] | None = None

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
                None treats all points as one group, which gives the unfair method.

        Raises:
            InputError: a parameter, X, the groups, the target or the goal is invalid, or there are fewer distinct
                points than clusters.
        """
        warn_if_groups_are_y(y, sensitive_features)
        return self._fit(X, y, sensitive_features)

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
        points = PrototypeProblem(groups, int(self.n_clusters), rows - self._origin, self.kind)
        return points.assigned(self._prototypes, membership @ self.group_prices_)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) Euclidean distances of the rows of X (n, D) to the centres, as in `sklearn.cluster.KMeans`."""
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False, normalize=self.normalize).numpy()
        return distances(rows - self._origin, self._prototypes, "kmedian").astype(rows.dtype)

    def _begin(self, X: Any, features: Any) -> _Points:
        """Check the input and build the starts: the method without fairness from each of the seeds."""
        watch, K = Stopwatch(), int(self.n_clusters)
        rows, groups = fit_input(self, X, features)
        values = rows.numpy()
        origin = values.mean(axis=0, dtype=np.float64)
        problem = part = PrototypeProblem(groups, K, values - origin, self.kind)
        sampled = sample(groups.cells, max(_SAMPLE[self.kind], _MEMBERS * K), self.random_state)
        seeds: NDArray[Any] | None = None
        if sampled is not None:
            with suppress(TooFewDistinct):  # the full data may have enough distinct points
                seeds = seeds_among(self, values[sampled])
                some = replace(groups, cells=groups.cells[sampled])
                part = PrototypeProblem(some, K, problem.values[sampled], self.kind)
        if seeds is None:
            seeds = seeds_among(self, values)
        starts = [{0.0: self._unfair(part, seed - origin)} for seed in seeds]
        objective = partial(objective_of, self.kind, values)
        return _Points(problem, part, starts, objective, 0.0, watch.lap(), values=values, origin=origin)

    def _unfair(self, problem: PrototypeProblem, prototypes: NDArray[Any]) -> NDArray[np.int64]:
        """(n,) labels of K-means, or of K-median with geometric medians, from these prototypes (K, D)."""
        if self.kind == "kmedian":
            return near_medians(problem, prototypes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # too few distinct points
            lloyd = sklearn.cluster.KMeans(len(prototypes), init=prototypes, n_init=1)
            labels: NDArray[np.int64] = lloyd.fit(problem.values).labels_.astype(np.int64)
        return labels

    def _with_all(self, data: _Points, found: Stage, weight: float) -> Stage:  # type: ignore[override]
        """The result with all points, from that of a sample with its prototypes and prices."""
        if data.part is data.problem:
            return found
        assert found.prototypes is not None
        if weight == 0:
            labels = self._unfair(data.problem, found.prototypes)
        else:
            prices = data.part.groups.membership @ data.part.prices(found.labels, found.prototypes)
            labels = data.problem.assigned(found.prototypes, prices)
        return stage(data.problem.moves(labels), weight, self.max_iter, self.tol, weight)

    def _keep(self, end: Stage, data: _Points, seconds: Seconds) -> None:  # type: ignore[override]
        assert end.prototypes is not None
        labels, order = numbered(self, end.labels)
        prototypes, groups = end.prototypes[order], data.groups
        keep_fairness(self, labels, groups)
        if self.kind == "kmeans":
            self.objective_ = self.inertia_ = kmeans_objective(data.values, labels)
        else:
            self._keep_medoids(medoids(data.values, labels))
        self._groups, self._origin, self._prototypes = groups.without_points(), data.origin, prototypes
        self.cluster_centers_ = (prototypes + data.origin).astype(data.values.dtype)
        self._n_features_out = self.n_clusters
        self.fairness_weight_ = end.weight
        self.group_prices_ = (
            data.problem.prices(labels, prototypes)
            if end.weight > 0
            else np.zeros((len(groups.names), self.n_clusters))
        )
        self.history_, self.n_iter_, self.converged_ = end.history, max(1, len(end.history)), end.converged
        self.seconds_ = seconds

    def _keep_medoids(self, found: Medoids) -> None:
        self.objective_, self.medoid_excess_ = float(found.costs.sum()), found.excess
        self.medoid_indices_ = np.full(self.n_clusters, -1)
        self.medoid_indices_[: len(found.indices)] = found.indices


def sample(cells: NDArray[np.int64], size: int, random_state: Any) -> NDArray[np.int64] | None:
    """(n,) ascending indices of a sample with the same share, rounded up, of the points of each cell.

    Starts, and the weights that lead to a weight, differ by far more than their last passes, and a sample is enough to
    compare them. The best goes on with all points.

    Args:
        cells: (N,) cells of the points, 0..C-1.
        size: number of points, up to one more for each cell.
        random_state: as in scikit-learn; not used if no sample is taken.

    Returns:
        The indices, or None if there are too few points for a sample.
    """
    points = len(cells)
    if points < 2 * size:
        return None
    return np.sort(stratified(cells, size / points, stream(seed_of(random_state), "fair sample")))


class FairKMeans(PrototypeClustering):
    """K-means whose clusters have the sensitive groups in target proportions, as closely as a weight demands.

    Minimises, over labels and the means c of their clusters (thesis eq. 3.4, K-means of Table 3.1, for labels),

        E = sum_p ||x_p - c||^2 + weight sum_k KL(U || P_k),     P_k the groups' shares in cluster k,

    by moves of points between clusters, each of which lowers E (`fairness.optimiser.moves`): single points, shares of a
    cluster with the same part of each group, and pairs of points that change places. The thesis bounds E by tangents in
    soft assignments instead, whose step diverges at large weights and whose labels are less fair than the assignments
    if clusters are small. The fit starts from K-means, which is the result at weight 0, and raises the weight in rungs.

    Cost: a pass over N points takes about three times an iteration of Lloyd; some 20 to 100 passes a start. Memory: X
    and some numbers a point. With 20,000 points or more, starts and rungs use a sample of 10,000, and one start
    continues with all points.

    Parameters
    ----------
    n_clusters : number of clusters K.
    fairness_weight : lambda >= 0 of E, in units of the squared distances; weights that matter grow with N / K and with
        the square of X. None uses 10 times the sum of squared distances to one mean, divided by K, at which clusters
        are near the target. A goal, such as {"min_balance": 0.4}, searches for the weight whose labels have the lowest
        objective among those that reach it: max_error is the largest fairness_error_, min_balance the smallest
        balance_min_, 0..1. A goal that no clustering can reach raises an error; a goal that no trial reached raises a
        warning. A weight above 0 without groups, or with a single group, raises a warning.
    target : target shares U, either one share per group in sorted order or {group: share}; with several attributes,
        {attribute: either}. None uses the shares in the data.
    intersectional : whether several attributes define groups by the combinations that occur, rather than each attribute
        separately.
    small_groups : "error" rejects a group with fewer than K points; "keep" accepts it.
    init : "k-means++", "random" (distinct rows of X), or (K, D) initial means, in which case there is a single start.
    n_init : number of starts. The one with the fewest empty clusters is kept and, among those, the one with the lowest
        E.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    max_iter, tol : maximum number of passes at each weight; relative change of E in a pass that counts as none. A fit
        ends when no move lowers E, or after three passes without a change.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    cluster_centers_ : (K, D) means of the clusters, in the space of the normalised rows if `normalize` is set.
    fairness_weight_ : the weight used; 0 if there is a single group.
    weight_path_ : with a goal, `fairness.optimiser.weight_search.Trial` of each weight that was tried.
    objective_, inertia_ : sum of squared distances of the points to the means of their labels.
    fairness_error_ : sum over clusters of KL(U || P_k) of the labels, in nats. Shares below 1e-20 count as 1e-20.
    balance_min_, balance_mean_ : ratio of the smallest to the largest group in a cluster, minimum and mean over the
        clusters; NaN if no attribute has two groups.
    group_counts_ : (J, K) number of points of each group in each cluster.
    group_names_, target_ : (J,) names and target shares of the groups.
    absent_groups_ : (group, cluster) pairs without a point.
    n_empty_ : number of empty clusters.
    group_prices_ : (J, K) cost, beside the distance, of assigning a point of a group to a cluster, used by `predict`.
    history_ : `fairness.optimiser.moves.Update` of each pass over all points, rungs included; none at weight 0. n_iter_
        : number of passes, at least 1.
    converged_ : whether the passes ended before max_iter.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`; after `path`, the share of one weight.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Examples
    --------
    >>> from fairness import FairKMeans
    >>> X = [[0.0], [0.1], [1.0], [1.1], [4.0], [4.1], [5.0], [5.1]]
    >>> sex = ["f", "f", "m", "m", "f", "f", "m", "m"]
    >>> FairKMeans(2, random_state=0).fit(X, sensitive_features=sex).balance_min_
    1.0
    """

    revision: ClassVar[int] = 3

    kind = "kmeans"


class FairKMedian(PrototypeClustering):
    """K-median whose clusters have the sensitive groups in target proportions, as closely as a weight demands.

    Minimises, over labels and the medoids c of their clusters, which are rows of X,

        E = sum_p ||x_p - c|| + weight sum_k KL(U || P_k),     P_k the groups' shares in cluster k,

    in the same way and with the same parameters as `FairKMeans`. Distances are not squared: the weight is in units of
    distances, and weights that matter grow with N / K and with X. The fit starts from geometric medians, by Weiszfeld's
    steps. Medoids are renewed whenever moves have nearly stopped. With 200,000 points or more, starts use a sample of
    100,000.

    Parameters
    ----------
    Those of `fairness.fair_kmeans.FairKMeans`.

    Attributes
    ----------
    Those of `FairKMeans`, except for
    cluster_centers_ : (K, D) medoids of the clusters: rows of X up to rounding.
    objective_ : sum of distances of the points to the medoids of their labels, as reported in the papers.
    medoid_indices_ : (K,) rows of X that are the medoids of the labels, -1 for an empty cluster. They are exact in
        clusters of up to 4,096 points; in larger ones they are the best of the 64 points nearest to the geometric
        median.
    medoid_excess_ : bound on the relative excess of objective_ over its value at exact medoids; 0 if they are exact.

    Examples
    --------
    >>> from fairness import FairKMedian
    >>> X = [[0.0], [0.1], [1.0], [1.1], [4.0], [4.1], [5.0], [5.1]]
    >>> sex = ["f", "f", "m", "m", "f", "f", "m", "m"]
    >>> FairKMedian(2, random_state=0).fit(X, sensitive_features=sex).balance_min_
    1.0
    """

    kind = "kmedian"
