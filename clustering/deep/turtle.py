"""TURTLE: the labelling that linear classifiers generalise best to, in the features of one or several networks
(Gadetsky, Jiang and Brbic, "Let Go of Your Labels with Unsupervised Transfer", ICML 2024)."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.functional import pad

from clustering.deep.linear import drawn_batches, drawn_heads, set_clusters
from clustering.estimator_input import Device, checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, validate_signature
from clustering.foundation.streams import seed_of
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.starts import best_start, cluster_sizes

_NORM = 10.0
"""Root mean squared norm to which the centred points of each encoder are scaled, about that of CLIP's features, for
which the paper's learning rates are."""

_DEVIATION = 0.1
"""Standard deviation of the first weights of a labelling, times the root of the number of columns."""

_FOLDS = 10
"""Folds of the score, as in the paper."""


@dataclass(eq=False, repr=False)
class TURTLE(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Unsupervised transfer: the labelling that linear classifiers of the features of all encoders learn best.

    Each encoder b has a softmax tau_b of its features, and the labelling tau is their mean. Adam minimises

        sum_b [mean_i <tau(x_i), -log q_b(x_i)> + entropy_weight KL(mean_i tau_b(x_i) || uniform)],

    where q_b is a linear classifier of the features of b after `inner_steps` steps of Adam towards tau. As in the
    paper, the dependence of q_b on tau is ignored in the gradient. At the paper's entropy_weight the clusters are of
    nearly equal size.

    The paper has 10 inner steps from random classifiers, 6,000 steps at learning rates that the score selects, and
    weight normalisation. Here classifiers start at zero, so that the objective depends on the labelling alone and ranks
    the starts, and three inner steps are the default: see docs/methods/entropy-clustering.md.

    Parameters
    ----------
    n_clusters : number of clusters K.
    blocks : numbers of columns of the encoders in X, the `np.hstack` of their features; None: X is of one encoder.
        Each block is centred and scaled as a whole.
    entropy_weight : gamma >= 0 of the paper; 0 allows that all points share a cluster.
    inner_steps : M, steps of the classifiers for each step of the labelling.
    n_init : number of starts; the one with the lowest objective is kept.
    max_iter, batch_size : steps of the labelling, and points per step.
    learning_rate, inner_learning_rate : of the labelling and of the classifiers.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the starts and batches.

    Attributes
    ----------
    labels_ : (N,) int, most probable cluster.
    coef_ : (K, D) weights, and intercept_ : (B, K) biases of the B softmaxes.
    cluster_sizes_ : (K,) int, number of points in each cluster. n_empty_ : number of empty clusters.
    objective_ : the objective over all points. start_objectives_ : (n_init,).
    n_iter_ : number of steps. seconds_ : `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : as
        in scikit-learn.
    """

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    blocks: tuple[Annotated[int, AtLeast(1)], ...] | None = None
    entropy_weight: Annotated[float, AtLeast(0)] = 10.0
    inner_steps: Annotated[int, AtLeast(1)] = 3
    n_init: Annotated[int, AtLeast(1)] = 4
    max_iter: Annotated[int, AtLeast(1)] = 300
    batch_size: Annotated[int, AtLeast(2)] = 1000
    learning_rate: Annotated[float, Above(0)] = 0.01
    inner_learning_rate: Annotated[float, Above(0)] = 0.01
    device: Device = "cpu"
    random_state: Any = None

    equal_sizes_unless = "choose another method"

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Cluster the rows of X, (N, D) finite; `y` is ignored.

        Raises:
            InputError: a parameter or X is invalid, there are fewer points than clusters, or the blocks are not those
                of X.
        """
        validate_signature(self)
        points = checked_rows(self, X, reset=True, device=self.device)
        watch = Stopwatch()
        parts = self._parts(points)
        means = [part.mean(dim=0) for part in parts]
        scales = [_scale(part - mean) for part, mean in zip(parts, means, strict=True)]
        standard = [
            pad((part - mean) / scale, (0, 1), value=1.0)  # the last weight is the bias
            for part, mean, scale in zip(parts, means, scales, strict=True)
        ]
        heads = self._train(standard)
        objectives, labels = self._objectives(standard, heads)
        if not bool(objectives.isfinite().all()):
            raise InputError(
                f"training diverged; lower learning_rate ({self.learning_rate:g}) or inner_learning_rate "
                f"({self.inner_learning_rate:g})"
            )
        hard = labels.argmax(dim=2).cpu()
        best = best_start(objectives, cluster_sizes(hard, self.n_clusters), points.dtype)
        order = set_clusters(self, hard[best].numpy())
        weights = [head[best][:, :-1] / scale for head, scale in zip(heads, scales, strict=True)]
        biases = [h[best][:, -1] - w @ mean for h, w, mean in zip(heads, weights, means, strict=True)]
        self.coef_ = torch.cat(weights, dim=1).cpu().numpy()[order]
        self.intercept_ = torch.stack(biases).cpu().numpy()[:, order]
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives.numpy()
        self.n_iter_ = self.max_iter
        self.seconds_ = Seconds(0.0, 0.0, watch.lap())
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) most probable cluster of each row of X (n, D)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) cluster probabilities, the mean over the encoders."""
        check_is_fitted(self)
        parts = self._parts(checked_rows(self, X, reset=False, device=self.device))
        weights = self._parts(torch.from_numpy(self.coef_).to(parts[0]))
        biases = torch.from_numpy(self.intercept_).to(parts[0])
        each = [torch.softmax(x @ w.T + b, dim=1) for x, w, b in zip(parts, weights, biases, strict=True)]
        return np.asarray(torch.stack(each).mean(dim=0).cpu().numpy())

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """How well linear classifiers of each encoder predict the clusters of points that they have not seen: the mean
        accuracy of logistic regressions over ten folds of X, the paper's score for the choice of settings. `y` is
        ignored. It is 0 if all points share a cluster, and comparable only for the same points and K.
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import KFold

        labels, accuracies = self.predict(X), []
        if len(np.unique(labels)) == 1:
            return 0.0
        for part in self._parts(checked_rows(self, X, reset=False)):
            centred = part - part.mean(dim=0)
            rows, model = (centred / _scale(centred)).numpy(), LogisticRegression(tol=1e-2)
            for train, test in KFold(min(_FOLDS, len(rows)), shuffle=True, random_state=0).split(rows):
                alone = len(np.unique(labels[train])) == 1  # the other cluster is in the fold as a whole
                learned = labels[train][0] if alone else model.fit(rows[train], labels[train]).predict(rows[test])
                accuracies.append(np.mean(learned == labels[test]))
        return float(np.mean(accuracies))

    def _parts(self, values: Tensor) -> Sequence[Tensor]:
        """The columns (…, D_b) of each encoder."""
        blocks, columns = list(self.blocks or [values.shape[-1]]), values.shape[-1]
        if sum(blocks) != columns:
            raise InputError(
                f"blocks={blocks} are {sum(blocks)} columns, and X has {columns}; give the number of columns of each "
                "encoder, in their order"
            )
        parts: Sequence[Tensor] = torch.split(values, blocks, dim=-1)
        return parts

    def _train(self, standard: Sequence[Tensor]) -> list[Tensor]:
        """(T, K, D_b + 1) weights and, last, biases of the labelling in each encoder, for all starts.

        Args:
            standard: (N, D_b + 1) points of each encoder, centred and scaled, and a column of ones.
        """
        seed = seed_of(self.random_state)
        heads = [
            drawn_heads(
                rows[:, :-1], self.n_init, self.n_clusters, _DEVIATION / (rows.shape[1] - 1) ** 0.5, seed, "turtle", b
            )
            for b, rows in enumerate(standard)
        ]
        adam = torch.optim.Adam(heads, lr=self.learning_rate)
        for chosen, _ in drawn_batches(standard[0], self.batch_size, self.max_iter, seed, "turtle"):
            adam.zero_grad()
            with torch.enable_grad():
                objectives, _ = self._objectives([rows[chosen] for rows in standard], heads)
                objectives.sum().backward()  # type: ignore[no-untyped-call]
            adam.step()
        return [weights.detach() for weights in heads]

    def _objectives(self, standard: Sequence[Tensor], heads: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """(T,) float64 objectives, on the CPU, and (T, N, K) labellings of the starts."""
        each = [torch.softmax(_scores(rows, weights), dim=2) for rows, weights in zip(standard, heads, strict=True)]
        labels = torch.stack(each).mean(dim=0)
        with torch.no_grad():
            losses = torch.stack([self._losses(rows, labels) for rows in standard]).sum(dim=0)
        shares = torch.stack(each).mean(dim=2)  # (B, T, K)
        uneven = math.log(self.n_clusters) - torch.special.entr(shares).sum(dim=2)
        objectives = (labels * losses).sum(dim=2).mean(dim=1) + self.entropy_weight * uneven.sum(dim=0)
        return objectives.double().cpu(), labels

    def _losses(self, rows: Tensor, labels: Tensor) -> Tensor:
        """(T, N, K) -log q of the classifiers after their steps towards the labels (T, N, K)."""
        weights = rows.new_zeros(*labels.shape[::2], rows.shape[1])
        adam = torch.optim.Adam([weights], lr=self.inner_learning_rate)
        for _ in range(self.inner_steps):
            errors = torch.softmax(_scores(rows, weights), dim=2) - labels
            weights.grad = errors.mT @ rows / len(rows)
            adam.step()
        return -torch.log_softmax(_scores(rows, weights), dim=2)


def _scale(centred: Tensor) -> float:
    """Divisor that gives centred points (N, D) the root mean squared norm `_NORM`."""
    return float(centred.square().sum(dim=1).mean().sqrt()) / _NORM or 1.0


def _scores(rows: Tensor, weights: Tensor) -> Tensor:
    """(T, N, K) scores of rows (N, D + 1) under weights (T, K, D + 1), in one product for all starts."""
    return (rows @ weights.flatten(0, 1).T).view(len(rows), *weights.shape[:2]).transpose(0, 1)
