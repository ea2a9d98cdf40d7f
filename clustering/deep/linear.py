"""Clustering of fixed features by a linear softmax, trained on objectives of `clustering.deep` from several starts."""

import dataclasses
import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.deep import OBJECTIVES, losses
from clustering.deep.objectives import Entropy, Objective, Relabel, Solver
from clustering.deep.settings import checked_prior
from clustering.estimator_input import Device, checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within, validate_signature
from clustering.foundation.streams import seed_of, stream_key
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.number_of_clusters import with_found_number
from clustering.numbering import numbered
from clustering.optimiser.alternation import Clamp
from clustering.starts import best_start, warn_of_empty


@dataclass(eq=False, repr=False)
class SoftmaxClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """A linear softmax fitted to the objective of a discriminative method, with the settings of its paper.

    Parameters
    ----------
    n_clusters : number of clusters K; "auto" finds it (`clustering.number_of_clusters`), and warns if no number stands
        out.
    objective : a name in `clustering.deep.OBJECTIVES`, or "module:Class".
    order : of the Renyi entropy, for "migd"; other objectives have none.
    smoothing : for "labelled" and "labelled_reverse", the share of a label that is spread over all
        classes; None smooths nothing. Other objectives have no smoothing.
    margin_weight : gamma >= 0, weight of the squared norm of v without bias. Points are first divided by the root of
        their mean squared distance from their mean, so that the effect of gamma does not depend on the scale of X; in
        the units of X the weight is gamma times that mean squared distance. At 0 there is no minimum. Large weights
        merge clusters that are small and far apart.
    prior : (K,) expected relative sizes of the clusters, above 0. "balanced" expects equal sizes, which should be known
        rather than hoped for: a wrong prior splits and merges clusters until their sizes match it.
    pseudo_labels : whether pseudo-labels are made for each batch, or for all points once per epoch, as MIADM was
        published.
    init_norm : norm of the initial v. Above 1 the starts differ from the first step on, which helps to find thin
        elongated clusters.
    n_init : number of starts; the one with the lowest objective is kept.
    max_iter, batch_size, learning_rate : number of Adam steps, points per step, and initial learning rate, which decays
        to 0.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the initialisations and batches.

    Attributes
    ----------
    labels_ : (N,) int, most probable cluster; labelled points keep their label.
    coef_ : (K, D) weights, and intercept_ : (K,) biases of the softmax.
    cluster_sizes_ : (K,) int, number of points in each cluster. n_empty_ : number of empty clusters.
    prior_ : (K,) prior, which sums to one.
    n_clusters_ : K. contrasts_ : (M,) contrast of 1..M clusters, of which K has the highest; only with "auto".
    objective_ : margin_weight ||v||^2 + mean entropy + KL(mean p || prior), eq. 14 of Zhang and Boykov, whatever
        objective the softmax was trained on; v belongs to the points divided by their root mean squared distance from
        their mean.
    start_objectives_ : (n_init,).
    n_iter_ : number of steps. seconds_ : `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : as
        in scikit-learn.
    """

    n_clusters: Annotated[int, AtLeast(1)] | Literal["auto"] = 8
    _: KW_ONLY
    objective: str = "sela"
    order: Annotated[float, Above(0)] = 1.0
    smoothing: Annotated[float, Within(0, 1)] | None = None
    margin_weight: Annotated[float, AtLeast(0)] = 1e-3
    prior: str | ArrayLike = "balanced"
    pseudo_labels: Relabel = "batch"
    init_norm: Annotated[float, Above(0)] = 0.1
    n_init: Annotated[int, AtLeast(1)] = 8
    max_iter: Annotated[int, AtLeast(1)] = 300
    batch_size: Annotated[int, AtLeast(2)] = 500
    learning_rate: Annotated[float, Above(0)] = 0.3
    device: Device = "cpu"
    random_state: Any = None

    def network_objective(self) -> Objective:
        """The objective on which the softmax, or a network in front of it, is trained."""
        kind = OBJECTIVES.load(self.objective)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            raise InputError(f"objective {self.objective!r} must name a dataclass, like those of clustering.deep")
        objective = kind()
        changes = {} if self.order == 1 else {"order": self.order}
        changes |= {} if self.smoothing is None else {"smoothing": self.smoothing}
        for name, value in changes.items():
            if not hasattr(objective, name):
                raise InputError(f"{name}={value:g}: objective {self.objective!r} has no {name}; remove it")
        return cast(Objective, dataclasses.replace(objective, **changes))

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
        if self.n_clusters == "auto":
            return with_found_number(self, X, partial_labels=partial_labels)
        self.n_clusters_ = int(self.n_clusters)
        points = checked_rows(self, X, reset=True, device=self.device)
        prior = checked_prior(self.prior, self.n_clusters_)
        known = known_clusters(partial_labels, points, self.n_clusters_)
        self.check_objective(known=known is not None and bool(known[0].any()))
        if known is not None:
            _warn_of_prior(known, prior)
        watch = Stopwatch()
        mean = points.mean(dim=0)
        scale = float((points - mean).square().sum(dim=1).mean().sqrt()) or 1.0
        standard = (points - mean) / scale
        heads = self._train(standard, prior.to(points), known)
        objectives = torch.zeros(self.n_init, dtype=torch.float64)
        sizes = torch.zeros(self.n_init, self.n_clusters_, dtype=torch.float64)
        for i, head in enumerate(heads):
            log_p = log_probabilities(standard, head)
            spread = losses.tolerant_fairness(log_p.exp().mean(0), prior.to(points))
            objectives[i] = losses.mean_entropy(log_p) + spread + self.margin_weight * losses.margin_norm(head[:, :-1])
            sizes[i] = torch.bincount(log_p.argmax(1), minlength=self.n_clusters_)
        if not bool(objectives.isfinite().all() & heads.isfinite().all()):
            raise self._diverged("the weights or the objective are", self.max_iter - 1)
        best = best_start(objectives, sizes, points.dtype)
        self.seconds_ = Seconds(0.0, 0.0, watch.lap())
        weights = heads[best, :, :-1] / scale
        self.coef_, self.intercept_ = weights.cpu().numpy(), (heads[best, :, -1] - weights @ mean).cpu().numpy()
        self.prior_ = prior.numpy()
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives.numpy()
        self.n_iter_ = self.max_iter
        labels = self._log_probabilities(points).argmax(1)
        if known is not None:
            labels = torch.where(known[0], known[1], labels)
        order = set_clusters(self, labels.cpu().numpy(), partial_labels)
        self.coef_, self.intercept_ = self.coef_[order], self.intercept_[order]
        self._n_features_out = self.n_clusters_
        return self

    def check_objective(self, *, known: bool, views: int = 0) -> None:
        """Check that there is what the objective learns from, and that it uses a prior if one is given.

        Args:
            known: whether there are labelled points.
            views: number of augmented copies of each point.

        Raises:
            InputError: labels or views are missing, or the objective has no prior.
        """
        objective = self.network_objective()
        name = self.objective
        if getattr(objective, "needs_labels", False) and not known:
            raise InputError(
                f"objective {name!r} learns from known labels only; pass partial labels, or choose another"
            )
        if getattr(objective, "needs_views", False) and not views:
            raise InputError(
                f"objective {name!r} compares augmented views of a point, which only networks receive: train a network "
                "with at least one view, or choose another objective"
            )
        if not isinstance(self.prior, str) and not objective.takes_prior:
            raise InputError(f"prior: objective {name!r} has no prior; remove it, or choose another objective")

    @property
    def equal_sizes_unless(self) -> str:
        """Advice for clusters of unequal size, if the method assumes equal sizes; otherwise empty."""
        settable = isinstance(self.prior, str) and self.network_objective().takes_prior
        return "give their relative sizes, such as prior=[6, 3, 1]" if settable else ""

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) most probable cluster of each row of X (n, D)."""
        return np.asarray(self._of_rows(X).argmax(1).cpu().numpy())

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) cluster probabilities."""
        return np.asarray(self._of_rows(X).exp().cpu().numpy())

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) log-probabilities, a space in which clusters are well separated."""
        return np.asarray(self._of_rows(X).cpu().numpy())

    def _train(self, standard: Tensor, prior: Tensor, known: Clamp | None) -> Tensor:
        """(T, K, D + 1) weights and, last, biases of all starts, by Adam with a learning rate that decays to 0.

        Args:
            standard: (N, D) points, centred, with mean squared norm 1.
            prior: (K,).
            known: (mask (N,), labels (N,)) of points with known cluster.
        """
        seed, starts, objective = seed_of(self.random_state), self.n_init, self.network_objective()
        deviation = self.init_norm / (self.n_clusters_ * standard.shape[1]) ** 0.5
        weights = drawn_heads(standard, starts, self.n_clusters_, deviation, seed, "linear heads")
        adam = torch.optim.Adam([weights], lr=self.learning_rate)

        def of_starts(chosen: Any = slice(None)) -> Clamp | None:
            return None if known is None else (known[0][chosen].expand(starts, -1), known[1][chosen].expand(starts, -1))

        for step, (chosen, first) in enumerate(
            drawn_batches(standard, self.batch_size, self.max_iter, seed, "linear heads")
        ):
            batch = standard[chosen]
            if first and self.pseudo_labels == "epoch":
                log_p = log_probabilities(standard, weights.detach())
                targets_of_all = objective.targets(log_p, prior, of_starts())
            if self.pseudo_labels == "epoch":
                targets = None if targets_of_all is None else targets_of_all[:, chosen]
            else:
                targets = objective.targets(log_probabilities(batch, weights.detach()), prior, of_starts(chosen))
            adam.param_groups[0]["lr"] = self.learning_rate * (1 - step / self.max_iter)
            adam.zero_grad()
            with torch.enable_grad():
                log_p = log_probabilities(batch, weights)
                loss = objective.loss(log_p[None], targets, prior, of_starts(chosen))
                loss = loss + self.margin_weight * losses.margin_norm(weights[..., :-1])
                loss.sum().backward()  # type: ignore[no-untyped-call]
            assert weights.grad is not None
            if not bool(loss.isfinite().all() & weights.grad.isfinite().all()):
                raise self._diverged("the loss or its gradient is", step)
            adam.step()
        return weights.detach()

    def _diverged(self, quantity: str, step: int) -> InputError:
        return InputError(
            f"training diverged: {quantity} not finite at step {step + 1} of {self.max_iter}; lower learning_rate "
            f"({self.learning_rate:g}) or init_norm ({self.init_norm:g})"
        )

    def _of_rows(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._log_probabilities(checked_rows(self, X, reset=False, device=self.device))

    def _log_probabilities(self, points: Tensor) -> Tensor:
        weights = torch.from_numpy(np.concatenate([self.coef_, self.intercept_[:, None]], axis=1)).to(points)
        return log_probabilities(points, weights)


@dataclass(eq=False, repr=False)
class EntropyClustering(SoftmaxClustering):
    """Discriminative entropy clustering by self-labelling (Zhang and Boykov, eq. 42), with labels of some or no points.

    Fits a linear softmax p of the features to pseudo-labels y that are close to its predictions and whose mean is close
    to the prior:

        margin_weight ||v||^2 + mean_i <p_i, -log y_i> + fairness_weight KL(prior || mean y),

    alternating over y and v on batches of points. Clusters are separated by hyperplanes, with a wide margin if
    margin_weight is small; unlike those of K-means they need not be round. Features count by their scale: standardise
    columns with different units.

    Parameters
    ----------
    fairness_weight : lambda >= 0. At the paper's value of 100 the cluster sizes match the prior almost exactly in every
        batch.
    solver : solver of the pseudo-labels, see `clustering.deep.objectives.Entropy`.

    The other parameters and the fitted attributes are those of `SoftmaxClustering`, without objective, order and
    smoothing; margin_weight is 3e-4 by default.
    """

    _: KW_ONLY
    objective: ClassVar[str] = "entropy"  # type: ignore[misc]
    order: ClassVar[float] = 1.0  # type: ignore[misc]
    smoothing: ClassVar[None] = None  # type: ignore[misc]
    margin_weight: Annotated[float, AtLeast(0)] = 3e-4
    fairness_weight: Annotated[float, AtLeast(0)] = 100.0
    solver: Solver = "em"

    def network_objective(self) -> Entropy:
        """See `SoftmaxClustering`."""
        return Entropy(fairness=self.fairness_weight, solver=self.solver)


def set_clusters(estimator: Any, labels: NDArray[np.int64], known: ArrayLike | None = None) -> NDArray[np.int64]:
    """Set labels_, cluster_sizes_ and n_empty_ of an estimator from labels (N,), with a warning of empty clusters;
    returns for each cluster the old number (K,), see `numbered`."""
    estimator.labels_, order = numbered(estimator, labels, known)
    estimator.cluster_sizes_ = np.bincount(estimator.labels_, minlength=len(order))
    estimator.n_empty_ = int((estimator.cluster_sizes_ == 0).sum())
    warn_of_empty(estimator.n_empty_, len(order), stacklevel=4)
    return order


def drawn_heads(
    points: Tensor, starts: int, clusters: int, deviation: float, seed: int, name: str, *place: int
) -> Tensor:
    """(T, K, D + 1) first weights and, last, biases 0 of linear heads of points (N, D). Every start has its own stream,
    so that its result does not depend on the others."""
    weights = points.new_zeros(starts, clusters, points.shape[1] + 1)
    for start in range(starts):
        generator = torch.Generator().manual_seed(stream_key(seed, name, "start", start, *place))
        drawn = torch.randn(clusters, points.shape[1], generator=generator, dtype=torch.float64)
        weights[start, :, :-1] = (deviation * drawn).to(weights)
    return weights.requires_grad_()


def drawn_batches(points: Tensor, size: int, steps: int, seed: int, name: str) -> Iterator[tuple[Tensor, bool]]:
    """Indices of the points (N, …) of each step, and whether it is the first of a pass over them, whose order is drawn
    anew. An incomplete last batch of a pass is dropped."""
    size = min(size, len(points))
    in_a_pass = len(points) // size
    for step in range(steps):
        if step % in_a_pass == 0:
            generator = torch.Generator().manual_seed(stream_key(seed, name, "order", step))
            order = torch.randperm(len(points), generator=generator).to(points.device)
        yield order[step % in_a_pass * size :][:size], step % in_a_pass == 0


def log_probabilities(points: Tensor, weights: Tensor) -> Tensor:
    """(…, N, K) log-probabilities of points (N, D) under heads (…, K, D + 1)."""
    return torch.log_softmax(points @ weights[..., :-1].mT + weights[..., None, :, -1], dim=-1)


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
