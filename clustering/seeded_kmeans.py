"""Seeded K-means: the means of labelled points initialise the clusters, and labelled points keep their clusters."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.estimator_input import checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.foundation.streams import seed_of, stream, stream_key
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.nearest_prototype import NearestPrototype
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds

_SAMPLE = 1000
"""Number of points whose pairwise distances determine the bandwidth."""


@dataclass(eq=False, repr=False)
class SeededKMeans(NearestPrototype, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Constrained K-means with partial labels (Basu, Banerjee and Mooney 2002), under one of three similarities.

    Columns are standardised, and rows are mapped to a space in which the similarity is an inner product. K-means runs
    in that space, with labelled points clamped to their clusters. It is the baseline of XSDC (Jones, Roulet and
    Harchaoui, section 5). A cluster that loses its points keeps its mean. The first mean of a cluster without labels is
    a k-means++ seed.

    Parameters
    ----------
    n_clusters : number of clusters K.
    metric : "linear", x^T y; "inverse_covariance", x^T (C + c I)^-1 y with C the covariance and c its largest
        eigenvalue divided by its trace; "gaussian", exp(-||x - y||^2 / (2 s^2)) with s^2 twice the median squared
        distance between 1,000 points.
    landmarks : number of points of the Nystrom approximation of the Gaussian kernel; exact if there are no more points.
    max_iter : maximum number of rounds.
    random_state : seed or generator of k-means++ and of the landmarks.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point; labelled points keep their label.
    cluster_centers_ : (K, D') means of the mapped rows; the fit holds N x D' numbers in memory.
    objective_, inertia_ : sum of squared distances of the mapped rows to their means. n_iter_ : number of rounds.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : as
        in scikit-learn.
    """

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    metric: Literal["linear", "inverse_covariance", "gaussian"] = "linear"
    landmarks: Annotated[int, AtLeast(1)] = 500
    max_iter: Annotated[int, AtLeast(1)] = 100
    random_state: Any = None

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, partial_labels: ArrayLike | None = None) -> "SeededKMeans":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, with a warning if `partial_labels` is None.

        Args:
            partial_labels: (N,) known clusters 0..K-1, and -1 for unlabelled points.

        Raises:
            InputError: a parameter, X or the labels are invalid, or there are fewer distinct points than clusters.
        """
        warn_if_labels_are_y(y, partial_labels)
        validate_signature(self)
        inputs = checked_rows(self, X, reset=True)
        clamp = known_clusters(partial_labels, inputs, self.n_clusters)
        watch = Stopwatch()
        seed = seed_of(self.random_state)
        self._centre, spread = inputs.mean(dim=0), inputs.std(dim=0, correction=0)
        self._spread = torch.where(spread > 0, spread, 1.0)
        self._begin((inputs - self._centre) / self._spread, seed)
        rows = Rows.of(self._mapped(inputs))
        (centres,) = first_seeds("k-means++", rows, self.n_clusters, 1, seed, clamp)
        seeding_seconds = watch.lap()
        labels, self.n_iter_ = torch.full((len(inputs),), -1), 0
        while self.n_iter_ < self.max_iter:
            nearest = rows.squared_distances(centres).min(dim=0).indices
            if clamp is not None:
                nearest = torch.where(clamp[0], clamp[1], nearest)
            if torch.equal(nearest, labels):
                break
            labels, self.n_iter_ = nearest, self.n_iter_ + 1
            centres = _means(rows.values, labels, centres)
        self.objective_ = self.inertia_ = float((rows.values - centres[labels]).square().sum(dtype=torch.float64))
        self.labels_, order = numbered(self, labels.numpy(), partial_labels)
        self.cluster_centers_ = rows.absolute(centres).numpy()[order]
        self.seconds_ = Seconds(0.0, seeding_seconds, watch.lap())
        return self

    def _new_rows(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._mapped(checked_rows(self, X, reset=False))

    def _begin(self, standard: Tensor, seed: int) -> None:
        """Fit the map of the standardised rows (N, D) to the space of the similarity."""
        if self.metric == "inverse_covariance":
            values, vectors = torch.linalg.eigh(standard.T.cov(correction=1).reshape(2 * standard.shape[1:]).double())
            shift = values[-1] / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
            self._matrix = (vectors / (values.clamp_min(0) + shift).clamp_min(1e-12).sqrt()).to(standard)
        elif self.metric == "gaussian":
            sample = stream(seed, "bandwidth").permutation(len(standard))[:_SAMPLE]
            squared = pairwise_distances(standard[torch.from_numpy(sample)].numpy(), metric="sqeuclidean")
            median = float(np.median(squared[np.triu_indices(len(sample), 1)])) if len(sample) > 1 else 1.0
            self._kernel = Nystroem(
                gamma=1 / (4 * median) if median > 0 else 1.0,
                n_components=min(self.landmarks, len(standard)),
                random_state=stream_key(seed, "landmarks") % 2**32,
            ).fit(standard.numpy())

    def _mapped(self, rows: Tensor) -> Tensor:
        """Map rows (n, D) to (n, D'), where the similarity is an inner product."""
        standard = (rows - self._centre.to(rows)) / self._spread.to(rows)
        if self.metric == "inverse_covariance":
            mapped: Tensor = standard @ self._matrix.to(standard)
            return mapped
        if self.metric == "gaussian":
            return torch.from_numpy(self._kernel.transform(standard.numpy())).to(standard)
        return standard


def _means(rows: Tensor, labels: Tensor, before: Tensor) -> Tensor:
    """(K, D) means of the rows (N, D) of each cluster; an empty cluster keeps its mean `before`."""
    counts = torch.bincount(labels, minlength=len(before))[:, None]
    sums = torch.zeros_like(before).index_add_(0, labels, rows)
    return torch.where(counts > 0, sums / counts.clamp_min(1), before)
