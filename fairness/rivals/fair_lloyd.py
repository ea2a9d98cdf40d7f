"""K-means or K-median with fair assignments, a cheap baseline for fair clustering."""

from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, Within
from clustering.foundation.streams import stream
from fairness.assignment import FairAssignment, bounds_about, fair_assignment
from fairness.fit_input import SmallGroups, warn_if_groups_are_y
from fairness.metrics import largest_violation
from fairness.objectives import Kind, geometric_median, objective_of
from fairness.optimiser.flow_rounding import rounded
from fairness.rivals.given import Course, Floats, Given, fit_courses, given
from fairness.rivals.unfair import costs


class FairLloyd(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """K-means or K-median with the cheapest fair assignment in place of the assignment to the nearest centre.

    Starting from the centres of the unfair method, alternates between two steps. The first is the assignment of minimum
    cost under which the share of every group in every cluster is between mu_j (1 - delta) and mu_j / (1 - delta), the
    linear programme of Bera et al. (2019), solved exactly at full size. The second updates the means or geometric
    medians of the clusters. Neither raises the cost, so that it falls to a local minimum. Memory: N K float64 costs
    besides X. Time: about ten assignments per start.

    Parameters
    ----------
    n_clusters : number of clusters K.
    kind : "kmeans" (squared distances) or "kmedian" (distances).
    delta : tolerance of the shares, 0..0.99; 0 demands the exact target, up to rounding to whole points.
    target : target shares mu, see `fairness.groups.groups_of`; None uses the shares in the data.
    init : "k-means++", or (K, D) initial centres, in which case there is a single start.
    n_init : number of starts, each initialised by the unfair method from its seeds; the one with the lowest objective
        is kept.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    small_groups : "error" rejects a group with fewer points than clusters; "keep" accepts it, and some clusters will
        lack the group.
    max_iter, tol : maximum number of alternations; relative decrease of the cost below which they stop.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point, rounded from the fractional assignment, see
        `fairness.optimiser.flow_rounding`.
    cluster_centers_ : (K, D) means or geometric medians, in the space of the normalised rows if `normalize` is set.
    objective_ : K-means or K-median objective of the labels, measured from the means or medoids of the clusters.
    history_ : (n_iter_,) cost of the fractional assignment after each turn; it never rises.
    violation_ : largest number of points by which the count of a group in a cluster violates its bounds; below 2 with
        one attribute. fairness_error_, balance_min_, balance_mean_, group_counts_ (J, K), group_names_, target_,
        n_empty_,
    absent_groups_ : as in `fairness.FairKMeans`.
    start_objectives_ : (n_init,) objective of each start.
    n_iter_ : number of alternations of the best start. seconds_ : time spent in the fit, see
        `clustering.foundation.timing.Seconds`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        kind: Kind = "kmeans",
        delta: Annotated[float, Within(0, 0.99)] = 0.0,
        target: Any = None,
        init: str | ArrayLike = "k-means++",
        n_init: Annotated[int, AtLeast(1)] = 4,
        normalize: Literal["l2"] | None = None,
        small_groups: SmallGroups = "error",
        max_iter: Annotated[int, AtLeast(1)] = 100,
        tol: Annotated[float, AtLeast(0)] = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kind = kind
        self.delta = delta
        self.target = target
        self.init = init
        self.n_init = n_init
        self.normalize = normalize
        self.small_groups = small_groups
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Any = None) -> "FairLloyd":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, with a warning if `sensitive_features` is None.

        Args:
            sensitive_features: see `fairness.groups.groups_of`; None treats all points as one group, which gives plain
                K-means.

        Raises:
            InputError: a parameter, X or the groups are invalid, or no assignment satisfies the bounds.
        """
        warn_if_groups_are_y(y, sensitive_features)
        data = given(self, X, sensitive_features)
        fit_courses(self, data, self.kind, partial(self._course, data))
        self.violation_ = largest_violation(self.group_counts_, data.groups, self.delta)
        return self

    def _course(self, data: Given, centres: Floats) -> Course:
        """Run one start from centres (K, D)."""
        values, groups = data.values, data.groups
        bounds, generator = bounds_about(groups.target, self.delta), stream(data.seed, "fair assignment")
        assignment: FairAssignment | None = None
        history: list[float] = []
        for _ in range(self.max_iter):
            cost = costs(values, centres, self.kind)
            assignment = fair_assignment(cost, groups, *bounds, generator=generator, near=assignment)
            history.append(assignment.value)
            if len(history) > 1 and history[-2] - history[-1] <= self.tol * history[-2]:
                break
            centres = self._moved(assignment.shares, values, centres)
        assert assignment is not None
        labels = rounded(assignment.shares, cost, groups.cells)
        integral = csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)), shape=cost.shape)
        centres = self._moved(integral, values, centres)
        return Course(labels, centres, objective_of(self.kind, values, labels), history)

    def _moved(self, shares: csr_array, values: Floats, centres: Floats) -> Floats:
        """(K, D) updated centres for shares (N, K) of points (N, D), which cost no more than the previous ones."""
        return (means if self.kind == "kmeans" else medians)(shares, values, centres)


def means(shares: csr_array, values: Floats, centres: Floats) -> Floats:
    """(K, D) means of points (N, D) weighted by shares (N, K); an empty cluster keeps its centre."""
    sizes = np.asarray(shares.sum(axis=0)).ravel()
    filled = (sizes > 1e-9)[:, None]
    return np.where(filled, (shares.T @ values) / np.where(filled, sizes[:, None], 1.0), centres)


def medians(shares: csr_array, values: Floats, centres: Floats) -> Floats:
    """(K, D) geometric medians of the points (N, D) that have their largest share (N, K) in a cluster.

    A centre is kept if the median does not lower the cost of the cluster's shares. Few points have shares in several
    clusters.
    """
    moved = centres.copy()
    columns = shares.tocsc()
    for k in range(len(centres)):
        part = slice(columns.indptr[k], columns.indptr[k + 1])
        points, weights = values[columns.indices[part]], columns.data[part]
        if not (weights > 0.5).any():
            continue
        median = geometric_median(points[weights > 0.5], max_iterations=50)[0]
        paid = [weights @ np.linalg.norm(points - centre, axis=1) for centre in (centres[k], median)]
        if paid[1] < paid[0]:
            moved[k] = median
    return moved
