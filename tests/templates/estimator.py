"""Farthest-first traversal (Gonzalez 1985)."""

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state

from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.numbering import numbered


class FarthestFirst(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """The first centre is a random point; each next one is the point farthest from all before.

    Args:
        n_clusters: number of clusters.
        random_state: chooses the first centre.
    """

    def __init__(self, n_clusters: Annotated[int, AtLeast(1)] = 8, *, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state

    @shared_if_large  # a small problem keeps to one core
    def fit(self, X: ArrayLike, y: Any = None) -> "FarthestFirst":
        """Cluster the rows of X (N, D)."""
        validate_signature(self)  # checks every parameter against its annotation
        points = checked_rows(self, X, reset=True).numpy()  # refuses dates, NaN and fewer rows than clusters
        first = check_random_state(self.random_state).randint(len(points))
        distances = [np.linalg.norm(points - points[first], axis=1)]
        for _ in range(self.n_clusters - 1):
            farthest = np.min(distances, axis=0).argmax()
            distances.append(np.linalg.norm(points - points[farthest], axis=1))
        self.labels_, _ = numbered(self, np.argmin(distances, axis=0))  # clusters in the order of their first points
        self.objective_ = float(np.min(distances, axis=0).max())  # lower is better: it chooses between starts
        return self
