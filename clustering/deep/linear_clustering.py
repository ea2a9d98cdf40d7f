"""Base class of methods that fit a linear softmax to features: starts, known labels, prior and fitted attributes."""

import warnings
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.deep.linear_heads import Relabel, fit_heads, log_probabilities
from clustering.deep.objectives import Objective
from clustering.deep.prior import checked_prior
from clustering.estimator_input import Device, checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate_signature
from clustering.foundation.streams import seed_of
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.numbering import numbered
from clustering.optimiser.alternation import Clamp
from clustering.starts import best_start, warn_of_empty


class LinearSoftmax(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A linear softmax trained on an objective of `clustering.deep`; subclasses choose the objective and its
    parameters.

    Attributes
    ----------
    labels_ : (N,) int, most probable cluster; labelled points keep their label.
    coef_ : (K, D) weights, and intercept_ : (K,) biases of the softmax.
    cluster_sizes_ : (K,) int, number of points in each cluster. n_empty_ : number of empty clusters.
    prior_ : (K,) prior, which sums to one.
    objective_ : margin_weight ||v||^2 + mean entropy + KL(mean p || prior), eq. 14 of Zhang and Boykov, whatever
        objective the softmax was trained on; v belongs to the points divided by their root mean squared distance from
        their mean.
    start_objectives_ : (n_init,).
    n_iter_ : number of steps. seconds_ : `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : as
        in scikit-learn.
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
        """The objective on which the softmax, or a network in front of it, is trained."""

    def _check_learns(self, known: bool) -> None:
        """Raise if the objective lacks what it learns from; `known` is whether there are labelled points."""

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, partial_labels: ArrayLike | None = None) -> Self:
        """Cluster the rows of X, (N, D) finite; `y` is ignored, with a warning if `partial_labels` is None.

        Args:
            partial_labels: (N,) int, known clusters 0..K-1, and -1 for unlabelled points.

        Raises:
            InputError: a parameter, X or the labels are invalid, or there are fewer points than clusters.
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
            seed=seed_of(self.random_state),
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
        """Check that the objective uses a prior if one is given.

        Raises:
            InputError: the objective has no prior.
        """
        objective = self.network_objective()
        if not isinstance(self.prior, str) and not objective.takes_prior:
            raise InputError(f"prior: {type(objective).__name__} has no prior; remove it, or choose another objective")

    @property
    def equal_sizes_unless(self) -> str:
        """Advice for clusters of unequal size, if the method assumes equal sizes; otherwise empty."""
        settable = isinstance(self.prior, str) and self.network_objective().takes_prior
        return "give their relative sizes, such as prior=[6, 3, 1]" if settable else ""

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) most probable cluster of each row of X (n, D)."""
        labels: NDArray[np.int64] = self._of_rows(X).argmax(1).cpu().numpy()
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) cluster probabilities."""
        probabilities: NDArray[Any] = self._of_rows(X).exp().cpu().numpy()
        return probabilities

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) log-probabilities, a space in which clusters are well separated."""
        scores: NDArray[Any] = self._of_rows(X).cpu().numpy()
        return scores

    def _of_rows(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._log_probabilities(checked_rows(self, X, reset=False, device=self.device))

    def _log_probabilities(self, points: Tensor) -> Tensor:
        weights = torch.from_numpy(np.concatenate([self.coef_, self.intercept_[:, None]], axis=1)).to(points)
        return log_probabilities(points, weights)


def _warn_of_prior(known: Clamp, prior: Tensor) -> None:
    """Warn if the class sizes of the labelled points are very unlikely under the prior."""
    sizes = np.bincount(known[1][known[0]].cpu().numpy(), minlength=len(prior))
    if sizes.sum() < 5 * len(prior):
        return
    expected = prior.double().numpy()
    if stats.chisquare(sizes, sizes.sum() * expected / expected.sum()).pvalue < 1e-3:
        warnings.warn(
            f"the labelled points have class sizes {sizes.tolist()}, which are very unlikely under the prior "
            f"{np.round(expected, 3).tolist()}; set prior, unless the labels were chosen by class",
            stacklevel=5,
        )
