"""Fair assignment to the centres of an unfair clustering (Bera, Chakrabarty, Flores and Negahbani, NeurIPS 2019)."""

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, Within
from clustering.foundation.streams import stream
from clustering.foundation.timing import Seconds, Stopwatch
from fairness.assignment import bounds_about, fair_assignment
from fairness.fit_input import SmallGroups, warn_if_groups_are_y
from fairness.metrics import largest_violation
from fairness.objectives import Kind, objective_of
from fairness.optimiser.flow_rounding import rounded
from fairness.reporting import keep_labels
from fairness.rivals.given import given
from fairness.rivals.unfair import best_centres, costs, unfair_centres


class Bera(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Reassigns points to the centres of K-means or K-median at the lowest cost under bounds on the groups.

    The share of every group in every cluster must be between mu_j (1 - delta) and mu_j / (1 - delta).

    The linear programme is solved exactly at full size (`fairness.assignment`), and rounded by a flow
    (`fairness.optimiser.flow_rounding`), whereas the paper drops constraints. There may be any number of groups, which
    overlap if there are several attributes. The centres are fixed; `FairLloyd` updates them. Memory: N K float64 costs
    besides X.

    Parameters
    ----------
    n_clusters : number of clusters K.
    kind : clustering that provides the centres and costs: "kmeans" (squared distances) or "kmedian" (distances).
    delta : tolerance of the shares, 0..0.99; 0.2 in the paper.
    target : target shares mu, see `fairness.groups.groups_of`; None uses the shares in the data.
    init : "k-means++", or (K, D) initial centres, in which case there is a single start.
    n_init : number of starts of the unfair clustering; the one with the lowest objective is kept.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    small_groups : "error" rejects a group with fewer points than clusters; "keep" accepts it, and some clusters will
        lack the group.
    max_iter : maximum number of iterations of the unfair clustering.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    cluster_centers_ : (K, D) centres of the unfair clustering, in the space of the normalised rows if `normalize` is
        set.
    objective_ : objective of the labels, measured from the means or medoids of the clusters. unfair_objective_ :
        objective of the unfair clustering.
    assignment_cost_ : cost of assigning the labels to cluster_centers_. lp_value_ : cost of the fractional assignment,
        the lowest under the bounds.
    violation_ : largest number of points by which the count of a group in a cluster violates its bounds; below 2 with
        one attribute.
    n_fractional_ : number of points that were rounded. fairness_error_, balance_min_, balance_mean_, group_counts_ (J,
        K), group_names_, target_, n_empty_,
    absent_groups_ : as in `fairness.FairKMeans`.
    history_ : (1,) lp_value_. n_iter_ : 1. seconds_ : time spent in the fit, see
        `clustering.foundation.timing.Seconds`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        kind: Kind = "kmeans",
        delta: Annotated[float, Within(0, 0.99)] = 0.2,
        target: Any = None,
        init: str | ArrayLike = "k-means++",
        n_init: Annotated[int, AtLeast(1)] = 8,
        normalize: Literal["l2"] | None = None,
        small_groups: SmallGroups = "error",
        max_iter: Annotated[int, AtLeast(1)] = 300,
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
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Any = None) -> "Bera":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, with a warning if `sensitive_features` is None.

        Args:
            sensitive_features: see `fairness.groups.groups_of`; None treats all points as one group, which gives the
                unfair clustering.

        Raises:
            InputError: a parameter, X or the groups are invalid, or no assignment satisfies the bounds.
        """
        warn_if_groups_are_y(y, sensitive_features)
        data, watch = given(self, X, sensitive_features), Stopwatch()
        values, groups = data.values, data.groups
        seeds = data.seeds(self)
        seeding = watch.lap()
        unfair = best_centres(unfair_centres(self.kind, values, seeds, self.max_iter))
        cost = costs(values, unfair.values, self.kind)
        assignment = fair_assignment(
            cost, groups, *bounds_about(groups.target, self.delta), generator=stream(data.seed, "fair assignment")
        )
        labels = rounded(assignment.shares, cost, groups.cells)
        self.unfair_objective_, self.lp_value_ = unfair.objective, assignment.value
        self.assignment_cost_ = float(cost[np.arange(len(cost)), labels].sum())
        self.n_fractional_ = int((np.diff(assignment.shares.indptr) > 1).sum())
        self.violation_ = largest_violation(groups.counts(labels, self.n_clusters), groups, self.delta)
        objective = objective_of(self.kind, values, labels)
        seconds = Seconds(0.0, seeding, watch.lap())
        keep_labels(self, labels, groups, objective, [assignment.value], seconds, unfair.values)
        return self
