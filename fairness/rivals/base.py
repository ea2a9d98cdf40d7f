"""What the methods of other authors share: parameters, checks, starts and fitted attributes."""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
import sklearn.cluster
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.numbering import numbered
from clustering.starts import first_lowest
from fairness.fit_input import SmallGroups, fit_input, seeds_among, warn_if_groups_are_y
from fairness.groups import Groups
from fairness.objectives import Kind, distances, geometric_median
from fairness.reporting import keep_fairness

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SETTLED = 1e-5
"""Relative decrease of the K-median objective below which it stops."""


class Data(NamedTuple):
    """Points and groups of a fit.

    Attributes:
        values: (N, D) float64, normalised if the estimator is set to.
        groups: groups of the points.
        seed: integer seed of all random draws.
        watch: stopwatch started after the checks.
    """

    values: Floats
    groups: Groups
    seed: int
    watch: Stopwatch


@dataclass(eq=False, repr=False)
class Rival(ClusterMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A fair clustering method of other authors.

    Parameters
    ----------
    n_clusters : number of clusters K.
    n_init : number of starts; the one with the lowest objective is kept.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    small_groups : "error" rejects a group with fewer points than clusters; "keep" accepts it, and some clusters will
        lack the group or stay empty.
    random_state : seed or generator of all random draws.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    objective_ : objective of the labels, measured from the best prototypes of the labels.
    fairness_error_, balance_min_, balance_mean_, group_counts_ (J, K), group_names_, target_, n_empty_,
    absent_groups_ : as in `fairness.FairKMeans`.
    history_ : (n_iter_,) values of the minimised function after each iteration. n_iter_ : number of iterations.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : as
        in scikit-learn.
    """

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    n_init: Annotated[int, AtLeast(1)] = 8
    normalize: Literal["l2"] | None = None
    small_groups: SmallGroups = "error"
    random_state: Any = None

    two_groups: ClassVar[bool] = False
    """Whether the method is for two groups only."""

    crossed: ClassVar[bool] = False
    """Whether combinations of several attributes are the groups."""

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Cluster the rows of X, (N, D) finite; `y` is ignored, with a warning if `sensitive_features` is None.

        Args:
            sensitive_features: see `fairness.groups.groups_of`; None treats all points as one group, which gives the
                unfair method.

        Raises:
            InputError: a parameter, X or the groups are invalid, or the method cannot do what is asked for them.
        """
        warn_if_groups_are_y(y, sensitive_features)
        self._cluster(self._checked(X, sensitive_features))
        return self

    @abstractmethod
    def _cluster(self, data: Data) -> None:
        """Set the fitted attributes."""

    def _checked(self, X: ArrayLike, sensitive_features: Any) -> Data:
        options = {"intersectional": True} if self.crossed else {}
        values, groups = fit_input(self, X, sensitive_features, **options)
        if self.two_groups and len(groups.names) > 2:
            raise InputError(
                f"{type(self).__name__} supports two groups, but there are {len(groups.names)}: "
                f"{', '.join(groups.labels()[:6])}; merge groups, or use Bera, FairLloyd or FairAlignment"
            )
        return Data(values.numpy().astype(np.float64), groups, seed_of(self.random_state), Stopwatch())

    def _keep(
        self, labels: Ints, groups: Groups, objective: float, history: Any, seconds: Seconds, centres: Floats | None
    ) -> None:
        """Set the fitted attributes that all methods have; `centres` (K, D) are `cluster_centers_`, if there are
        any."""
        labels, order = numbered(self, labels)
        if centres is not None:
            self.cluster_centers_ = centres[order]
        keep_fairness(self, labels, groups)
        self.objective_, self.history_ = objective, np.asarray(history, dtype=np.float64)
        self.n_iter_, self.seconds_ = max(1, len(self.history_)), seconds


@dataclass(eq=False, repr=False)
class WithCentres(Rival):
    """A method that starts from the centres of K-means or K-median.

    Parameters
    ----------
    init : "k-means++", "random" (distinct rows of X), or (K, D) initial centres, in which case there is a single start.
    max_iter : maximum number of iterations of the unfair clustering or, where the method has iterations, of the method.

    Attributes
    ----------
    cluster_centers_ : (K, D) in the space of the normalised rows if `normalize` is set.
    """

    _: KW_ONLY
    init: str | ArrayLike = "k-means++"
    max_iter: Annotated[int, AtLeast(1)] = 100


class Course(NamedTuple):
    """Result of one start: labels (N,), centres (K, D), objective of the labels, and costs after each iteration."""

    labels: Ints
    centres: Floats
    objective: float
    history: list[float]


@dataclass(eq=False, repr=False)
class Alternating(WithCentres):
    """A method that alternates between fair assignments and centres.

    Parameters
    ----------
    n_init : number of starts, each initialised by the unfair method from its seeds; the one with the lowest objective
        is kept.
    max_iter, tol : maximum number of alternations; relative decrease of the cost below which they stop.

    Attributes
    ----------
    start_objectives_ : (n_init,) objective of each start.
    """

    _: KW_ONLY
    n_init: Annotated[int, AtLeast(1)] = 4
    tol: Annotated[float, AtLeast(0)] = 1e-5

    kind = "kmeans"

    def _cluster(self, data: Data) -> None:
        seeds = seeds_among(self, data.values)
        seeding = data.watch.lap()
        generators = (stream(data.seed, "fair assignment") for _ in seeds)
        starts = unfair_centres(cast(Kind, self.kind), data.values, seeds, max_iter=300)
        courses = [self._course(data, start.values, each) for start, each in zip(starts, generators, strict=True)]
        self.start_objectives_ = np.array([course.objective for course in courses])
        best = courses[int(first_lowest(self.start_objectives_))]
        seconds = Seconds(0.0, seeding, data.watch.lap())
        self._keep(best.labels, data.groups, best.objective, best.history, seconds, best.centres)

    @abstractmethod
    def _course(self, data: Data, centres: Floats, generator: np.random.Generator) -> Course:
        """Run one start from centres (K, D)."""

    def _settled(self, history: list[float]) -> bool:
        return len(history) > 1 and history[-2] - history[-1] <= self.tol * history[-2]


class Centres(NamedTuple):
    """Result of one start.

    Attributes:
        values: (K, D) centres.
        objective: sum of the costs of the points at their nearest centres.
    """

    values: Floats
    objective: float


def costs(values: Floats, centres: Floats, kind: Kind = "kmeans") -> Floats:
    """(N, K) squared distances, or distances for "kmedian", of points (N, D) to centres (K, D)."""
    origin = values.mean(axis=0)  # centring avoids cancellation in data far from zero
    return distances(values - origin, centres - origin, kind)


def unfair_centres(kind: Kind, values: Floats, seeds: Floats, max_iter: int) -> list[Centres]:
    """Centres from each of the seeds (T, K, D).

    K-means uses scikit-learn; K-median alternates between assignments to the nearest centre and geometric medians.
    """
    if kind == "kmedian":
        return [_medians(values, seed, max_iter) for seed in seeds]
    centres = []
    for seed in seeds:
        lloyd = sklearn.cluster.KMeans(len(seed), init=seed, n_init=1, max_iter=max_iter).fit(values)
        centres.append(Centres(lloyd.cluster_centers_, float(lloyd.inertia_)))
    return centres


def best_centres(starts: list[Centres]) -> Centres:
    """The start with the lowest objective; the first of equal ones."""
    return starts[int(first_lowest([start.objective for start in starts]))]


def _medians(values: Floats, centres: Floats, max_iter: int) -> Centres:
    centres, lowest = centres.copy(), np.inf
    for _ in range(max_iter):
        paid = costs(values, centres, "kmedian")
        labels, objective = paid.argmin(axis=1), float(paid.min(axis=1).sum())
        if objective >= lowest * (1 - _SETTLED):
            break
        lowest = objective
        for k in np.unique(labels):  # an empty cluster keeps its centre
            centres[k] = geometric_median(values[labels == k], max_iterations=50)[0]
    return Centres(centres, float(costs(values, centres, "kmedian").min(axis=1).sum()))
