"""What methods share that fit a linear softmax to features: starts, known labels, a prior, and what is learned."""

import warnings
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.deep.linear_heads import Relabel, fit_heads, log_probabilities
from clustering.deep.objectives import Objective
from clustering.deep.training import checked_prior
from clustering.estimator_input import Device, checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.numbering import numbered
from clustering.optimiser.alternation import Clamp
from clustering.starts import best_start, warn_of_empty


class LinearSoftmax(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A linear softmax trained by an objective of `clustering.deep`; which, and its parameters, subclasses say.

    Attributes
    ----------
    labels_ : (N,) int, the likeliest cluster; those of known points as they are known.
    coef_ : (K, D), intercept_ : (K,) of the softmax.
    cluster_sizes_ : (K,) int, points of each cluster. n_empty_ : clusters without points.
    prior_ : (K,) the prior, summing to one.
    objective_ : margin_weight ||v||^2 + mean entropy + KL(mean p || prior), of eq. 14 of Zhang and Boykov, whatever the
        softmax was trained by; v is that of the points divided by their root mean squared distance from their mean.
    start_objectives_ : (n_init,).
    n_iter_ : steps. seconds_ : `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : of
        scikit-learn.
    """

    n_clusters: int
    margin_weight: float
    prior: str | ArrayLike
    pseudo_labels: Relabel
    init_norm: float
    n_init: int
    max_iter: int
    batch_size: int
    learning_rate: float
    device: Device
    random_state: Any

    @abstractmethod
    def network_objective(self) -> Objective:
        """What the softmax is trained by, or a network in front of it."""

    def _check_learns(self, known: bool) -> None:
        """That there is what the objective learns from."""

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, partial_labels: ArrayLike | None = None) -> Self:
        """Cluster the rows of X, (N, D) finite; `y` is ignored, with a warning unless `partial_labels` are given.

        Args:
            partial_labels: (N,) int, known clusters 0..K-1 of some points, and -1.

        Raises:
            InputError: a parameter, X or labels that cannot be; fewer points than clusters.
        """
        warn_if_labels_are_y(y, partial_labels)
        validate_signature(self)
        points = checked_rows(self, X, reset=True, device=self.device)
        if len(points) < self.n_clusters:
            raise InputError(f"n_samples={len(points)} should be >= n_clusters={self.n_clusters}")
        prior = checked_prior(self.prior, self.n_clusters)
        self.check_prior()
        known = known_clusters(partial_labels, points, self.n_clusters)
        self._check_learns(known is not None and bool(known[0].any()))
        if known is not None:
            _warn_of_prior(known, prior)
        watch = Stopwatch()
        heads = fit_heads(
            points,
            self.n_clusters,
            self.network_objective(),
            prior.to(points),
            starts=self.n_init,
            steps=self.max_iter,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            margin_weight=self.margin_weight,
            start_norm=self.init_norm,
            seed=int(check_random_state(self.random_state).randint(2**31)),
            known=known,
            relabel=self.pseudo_labels,
        )
        best = best_start(heads.values, heads.sizes, points.dtype)
        self.seconds_ = Seconds(0.0, 0.0, watch.lap())
        weights = heads.weights[best]
        self.coef_, self.intercept_ = weights[:, :-1].cpu().numpy(), weights[:, -1].cpu().numpy()
        self.prior_ = prior.numpy()
        self.objective_, self.start_objectives_ = float(heads.values[best]), heads.values.numpy()
        self.n_iter_ = self.max_iter
        labels = self._log_probabilities(points).argmax(1)
        if known is not None:
            labels = torch.where(known[0], known[1], labels)
        self.labels_, order = numbered(self, labels.cpu().numpy(), partial_labels)
        self.coef_, self.intercept_ = self.coef_[order], self.intercept_[order]
        self.cluster_sizes_ = np.bincount(self.labels_, minlength=self.n_clusters)
        self.n_empty_ = int((self.cluster_sizes_ == 0).sum())
        warn_of_empty(self.n_empty_, self.n_clusters, stacklevel=3)
        self._n_features_out = self.n_clusters
        return self

    def check_prior(self) -> None:
        """That a prior has a part in what it is trained by, where one is given.

        Raises:
            InputError: it has none.
        """
        objective = self.network_objective()
        if not isinstance(self.prior, str) and not objective.takes_prior:
            raise InputError(f"prior: {type(objective).__name__} takes none; leave it out, or take another objective")

    @property
    def equal_sizes_unless(self) -> str:
        """What to give where clusters are not of the same size, as they are taken to be; empty if they are not."""
        taken = isinstance(self.prior, str) and self.network_objective().takes_prior
        return "give their sizes in proportion, as prior=[6, 3, 1]" if taken else ""

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) the likeliest cluster of each of the rows of X (n, D)."""
        found: NDArray[np.int64] = self._of_rows(X).argmax(1).cpu().numpy()
        return found

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) probabilities of the clusters."""
        found: NDArray[Any] = self._of_rows(X).exp().cpu().numpy()
        return found

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) log-probabilities: a space in which clusters are far apart."""
        found: NDArray[Any] = self._of_rows(X).cpu().numpy()
        return found

    def _of_rows(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._log_probabilities(checked_rows(self, X, reset=False, device=self.device))

    def _log_probabilities(self, points: Tensor) -> Tensor:
        weights = torch.from_numpy(np.concatenate([self.coef_, self.intercept_[:, None]], axis=1)).to(points)
        return log_probabilities(points, weights)


def _warn_of_prior(known: Clamp, prior: Tensor) -> None:
    """Where what is known of the classes' sizes can hardly come from the prior."""
    sizes = np.bincount(known[1][known[0]].cpu().numpy(), minlength=len(prior))
    if sizes.sum() < 5 * len(prior):
        return
    expected = prior.double().numpy()
    if stats.chisquare(sizes, sizes.sum() * expected / expected.sum()).pvalue < 1e-3:
        warnings.warn(
            f"known labels have class sizes {sizes.tolist()}, which the prior {np.round(expected, 3).tolist()} does "
            "not expect; give prior, unless labels were chosen by class",
            stacklevel=5,
        )
