"""K-means from labels: the means of known points are where it begins, and these points stay in their clusters."""

from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import pairwise_distances
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.estimator_input import checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.foundation.streams import stream, stream_key
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.sparse_rows import nearest_centres, rows_of
from clustering.numbering import numbered
from clustering.seeding import first_seeds

_SAMPLE = 1000
"""Points whose distances make the bandwidth."""


class SeededKMeans(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """K-means with some labels (Basu, Banerjee and Mooney 2002, constrained K-means), by one of three similarities.

    Columns are standardised, and rows mapped to where the similarity is an inner product; there it is K-means, with
    known points clamped to their clusters: what XSDC (Jones, Roulet and Harchaoui, section 5) is compared with. A
    cluster that loses its points keeps its mean. Without labels of a cluster its first mean is a seed of k-means++.

    Parameters
    ----------
    n_clusters : K.
    metric : "linear", x^T y; "inverse_covariance", x^T (C + c I)^-1 y of the covariance C, c its largest eigenvalue
        over its trace; "gaussian", exp(-||x - y||^2 / (2 s^2)), s^2 twice the median squared distance of 1,000 points.
    landmarks : points by which the Gaussian kernel is approximated (Nystrom); exact where there are no more.
    max_iter : rounds at most.
    random_state : seed of k-means++ and of the landmarks.

    Attributes
    ----------
    labels_ : (N,) int, those that were known as they were.
    cluster_centers_ : (K, D') means, of mapped rows; N x D' numbers are held.
    objective_ : sum of squared distances of mapped rows to their means. n_iter_ : rounds.
    seconds_ : `clustering.foundation.timing.Seconds` of the fit. n_features_in_, feature_names_in_ : of scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        metric: Literal["linear", "inverse_covariance", "gaussian"] = "linear",
        landmarks: Annotated[int, AtLeast(1)] = 500,
        max_iter: Annotated[int, AtLeast(1)] = 100,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.landmarks = landmarks
        self.max_iter = max_iter
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, partial_labels: ArrayLike | None = None) -> "SeededKMeans":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, with a warning unless `partial_labels` are given.

        Args:
            partial_labels: (N,) 0..K-1, -1 where unknown.

        Raises:
            InputError: a parameter, X or labels that cannot be; fewer distinct points than clusters.
        """
        warn_if_labels_are_y(y, partial_labels)
        validate_signature(self)
        given = checked_rows(self, X, reset=True)
        clamp = known_clusters(partial_labels, given, self.n_clusters)
        watch = Stopwatch()
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self._centre, spread = given.mean(dim=0), given.std(dim=0, correction=0)
        self._spread = torch.where(spread > 0, spread, 1.0)
        self._begin((given - self._centre) / self._spread, seed)
        rows = rows_of(self._mapped(given))
        (centres,) = first_seeds("k-means++", rows, self.n_clusters, 1, seed, clamp)
        if rows.origin is not None:
            centres = centres + rows.origin
        seeding_seconds = watch.lap()
        labels, self.n_iter_ = torch.full((len(given),), -1), 0
        while self.n_iter_ < self.max_iter:
            found = nearest_centres(rows.values, centres)
            if clamp is not None:
                found = torch.where(clamp[0], clamp[1], found)
            if torch.equal(found, labels):
                break
            labels, self.n_iter_ = found, self.n_iter_ + 1
            centres = _means(rows.values, labels, centres)
        self.objective_ = float((rows.values - centres[labels]).square().sum(dtype=torch.float64))
        self.labels_, order = numbered(self, labels.numpy(), partial_labels)
        self.cluster_centers_ = centres.numpy()[order]
        self.seconds_ = Seconds(0.0, seeding_seconds, watch.lap())
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) the nearest mean of each of the rows of X (n, D)."""
        check_is_fitted(self)
        mapped = self._mapped(checked_rows(self, X, reset=False))
        return nearest_centres(mapped, torch.from_numpy(self.cluster_centers_).to(mapped)).numpy()

    def _begin(self, standard: Tensor, seed: int) -> None:
        """What maps standardised rows (N, D)."""
        if self.metric == "inverse_covariance":
            values, vectors = torch.linalg.eigh(standard.T.cov(correction=1).reshape(2 * standard.shape[1:]).double())
            shift = values[-1] / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
            self._matrix = (vectors / (values.clamp_min(0) + shift).clamp_min(1e-12).sqrt()).to(standard)
        elif self.metric == "gaussian":
            some = stream(seed, "bandwidth").permutation(len(standard))[:_SAMPLE]
            squared = pairwise_distances(standard[torch.from_numpy(some)].numpy(), metric="sqeuclidean")
            median = float(np.median(squared[np.triu_indices(len(some), 1)])) if len(some) > 1 else 1.0
            self._kernel = Nystroem(
                gamma=1 / (4 * median) if median > 0 else 1.0,
                n_components=min(self.landmarks, len(standard)),
                random_state=stream_key(seed, "landmarks") % 2**32,
            ).fit(standard.numpy())

    def _mapped(self, rows: Tensor) -> Tensor:
        """(n, D') rows (n, D) where the similarity is an inner product."""
        standard = (rows - self._centre.to(rows)) / self._spread.to(rows)
        if self.metric == "inverse_covariance":
            mapped: Tensor = standard @ self._matrix.to(standard)
            return mapped
        if self.metric == "gaussian":
            return torch.from_numpy(self._kernel.transform(standard.numpy())).to(standard)
        return standard


def _means(rows: Tensor, labels: Tensor, before: Tensor) -> Tensor:
    """(K, D) means of the rows (N, D) of each cluster, those `before` where there are none."""
    counts = torch.bincount(labels, minlength=len(before))[:, None]
    sums = torch.zeros_like(before).index_add_(0, labels, rows)
    return torch.where(counts > 0, sums / counts.clamp_min(1), before)
