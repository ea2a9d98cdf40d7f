"""K-means centres with equal shares of every group: as fair as possible, at the least cost about these centres."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast
from clustering.kmeans import KMeans
from clustering.numbering import numbered
from fairness.fit_input import fit_input, warn_if_groups_are_y
from fairness.objectives import kmeans_objective


class EvenShares(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """The points of each group are assigned to the K-means centres, equally many to each centre.

    Args:
        n_clusters: number of clusters.
        normalize: "l2" divides each row by its Euclidean norm; None uses the rows as given.
        random_state: seed of K-means.
    """

    kind = "kmeans"  # what objective_ is: "kmeans", "kmedian" or "ncut"

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        normalize: Literal["l2"] | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.normalize = normalize
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Mapping[str, Any] | None = None) -> "EvenShares":
        """Cluster the rows of X (N, D)."""
        warn_if_groups_are_y(y, sensitive_features)
        rows, groups = fit_input(self, X, sensitive_features)  # checks parameters, points and groups
        points = rows.numpy()
        centres = KMeans(self.n_clusters, random_state=self.random_state).fit(points).cluster_centers_
        costs = cdist(points, centres, "sqeuclidean")
        labels = np.empty(len(points), dtype=np.int64)
        for cell in np.unique(groups.cells):  # (N,) number of the group, or combination of groups, of each point
            members = np.flatnonzero(groups.cells == cell)
            seats = np.repeat(np.arange(self.n_clusters), -(-len(members) // self.n_clusters))
            labels[members] = seats[linear_sum_assignment(costs[members][:, seats])[1]]
        self.labels_, _ = numbered(self, labels)
        self.objective_ = kmeans_objective(points, self.labels_)
        return self
