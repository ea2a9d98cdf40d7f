"""iLPC: iterative label cleaning (Lazarou, Stathaki and Avrithis 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from clustering.foundation.parameters import AtLeast, Within
from clustering.graphs.dense_graph import nearest
from clustering.graphs.knn import nearest_neighbours
from clustering.graphs.propagation import DensePropagation, Propagation, SparsePropagation
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.points import Features, Gram, Points
from clustering.optimiser.transport import sinkhorn
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.centring import Centring, centred
from fsl.strategies.shared.method import Method
from fsl.strategies.shared.proportions import Proportions, class_shares
from fsl.transforms import Transform

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 5e-4
"""Of the training, as in the public code of iLPC; the decay applies to weights and bias."""


@dataclass(frozen=True)
class ILPC(Method):
    """Iterative pseudo-labelling. Each round propagates labels to the queries, balances them by optimal transport, and
    adds the queries whose labels a linear classifier learns most easily to the support.

    1. F = (I - alpha W)^-1 Y, with the given and kept labels Y, and the normalised graph W of cubed cosines between
       nearest neighbours; rows of F sum to one
    2. P = Sinkhorn(F^power) over the remaining queries; the column sums are the numbers of queries that each class is
       still missing
    3. the likeliest labels under P and the kept labels train a linear classifier; the loss of each label is averaged
       over the training
    4. the `keep` queries of each class with the lowest loss keep their label; if fewer than K queries do so, all
       remaining queries keep their label and the task ends

    Differences from the public code: F is solved to rounding rather than by 20 steps of conjugate gradients; negative
    cosines are not edges (in the public code they can make a degree negative); the classifier's bias starts at 0 rather
    than at random; and a class with more than its share of queries gets no further ones.

    Attributes:
        transform: per-feature transform; PT as published for WRN features.
        centring: "together" as published, "apart" or None, see `fsl.strategies.shared.centring`; then unit length.
        n_neighbors: k of the graph; 20 published for WRN, 15 for ResNet-12, other numbers for other settings.
        alpha: weight of the neighbours in the propagation; 0.8 in most published commands.
        power: exponent that sharpens the labels before the transport.
        keep: queries that keep their label, per class and round.
        steps: training steps of the classifier.
        proportions: class proportions of the queries, see `fsl.strategies.shared.proportions`; None: equal ones.
    """

    assumes_balance: ClassVar[bool] = True
    needs: ClassVar[str] = "non-negative features"
    centring: ClassVar[Centring] = "together"
    power: ClassVar[float] = 3.0
    keep: ClassVar[int] = 3
    steps: ClassVar[int] = 1000

    transform: Transform = "PT"
    n_neighbors: Annotated[int, AtLeast(1)] = 20
    alpha: Annotated[float, Within(0, 0.9999)] = 0.8
    proportions: Proportions = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.proportions not in (None, "equal"):
            object.__setattr__(self, "assumes_balance", False)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries: the transport plan that set the label of each. Iterations are rounds."""
        episodes = episodes.transformed(self.transform)
        points = centred(episodes, episodes.features, self.centring)
        valid, S = episodes.valid, episodes.support_size
        propagation = self._propagation(points, valid)
        known = episodes.support_one_hot.mT
        labels = torch.cat([known, known.new_zeros(*known.shape[:2], valid.shape[1] - S)], 2)
        left = valid.clone()
        left[:, :S] = False
        lacking = left.sum(1, keepdim=True) * class_shares(self.proportions, episodes)
        probabilities = torch.full_like(labels, 1 / episodes.way)
        rounds = torch.zeros(len(valid), dtype=torch.int64, device=valid.device)
        while (tasks := left.any(dim=1).nonzero()[:, 0]).numel():
            balanced = self._balanced(propagation.select(tasks), labels[tasks], left[tasks], lacking[tasks])
            one_hot = _one_hot(balanced) * left[tasks][:, None]
            probabilities[tasks] = torch.where(left[tasks][:, None], balanced, probabilities[tasks])
            given = labels[tasks]
            losses = mean_losses(points.select(tasks), given, given + one_hot, valid[tasks], self.steps)
            kept = self._kept(losses, one_hot)
            last = kept.sum((1, 2)) < episodes.way
            labels[tasks] += kept
            left[tasks] &= ~(kept.sum(1) > 0) & ~last[:, None]
            lacking = lacking.index_copy(0, tasks, (lacking[tasks] - kept.sum(2)).clamp_min(0))
            rounds[tasks] += 1
        return Predictions(probabilities[:, :, S:].mT, rounds)

    def _propagation(self, points: Points, valid: Tensor) -> Propagation:
        """The linear map (I - alpha W)^-1."""
        if isinstance(points, Features):
            near = nearest_neighbours(points.values, self.n_neighbors, valid=valid)
            norms = points.squared_norms
            others = norms.gather(1, near.indices.clamp_min(0).flatten(1)).view_as(near.indices)
            cosines = (norms[:, :, None] + others - near.squared_distances) / 2
            graph = SparseGraph.of_arcs(near.indices, cosines.clamp_min(0) ** 3)
            return SparsePropagation(graph.scaled(_inverse_roots(graph.degrees)), self.alpha)
        products = points.pairwise()
        weights = nearest(-products, self.n_neighbors, valid=valid) * products.clamp_min(0) ** 3
        weights = weights + weights.mT
        scale = _inverse_roots(weights.sum(dim=2))
        weights = weights * scale[:, :, None] * scale[:, None, :]
        eye = torch.eye(weights.shape[1], dtype=weights.dtype, device=weights.device)
        return DensePropagation(torch.linalg.inv(eye - self.alpha * weights))

    def _balanced(self, propagation: Propagation, labels: Tensor, left: Tensor, lacking: Tensor) -> Tensor:
        """(B, K, M) class probabilities of the remaining points."""
        spread = propagation.spread(labels).clamp_min(0)
        spread = spread / spread.sum(dim=1, keepdim=True).clamp_min(1e-24)
        scores = self.power * spread.clamp_min(1e-24).log()
        rows = left.to(labels.dtype)
        return sinkhorn(scores.mT, rows, lacking).assignments.mT

    def _kept(self, losses: Tensor, one_hot: Tensor) -> Tensor:
        """(B, K, M) 1 for the points with the lowest loss in each class; ties go to the lowest index."""
        ranked = torch.where(one_hot > 0, losses[:, None], torch.inf)
        order = ranked.sort(dim=2, stable=True).indices[:, :, : self.keep]
        return torch.zeros_like(one_hot).scatter_(2, order, 1.0) * one_hot


def _inverse_roots(degrees: Tensor) -> Tensor:
    """1 / sqrt(degree), or 0 for isolated points."""
    return torch.where(degrees > 0, degrees.clamp_min(1e-24).rsqrt(), 0.0)


def _one_hot(probabilities: Tensor) -> Tensor:
    """(B, K, M) 1 for the class with the highest probability; ties go to the lowest class."""
    classes = torch.arange(probabilities.shape[1], device=probabilities.device)[:, None]
    return (probabilities.max(dim=1, keepdim=True).indices == classes).to(probabilities.dtype)


def mean_losses(points: Points, given: Tensor, labels: Tensor, valid: Tensor, steps: int = 1000) -> Tensor:
    """(B, M) cross-entropy of each point's label, averaged over the training steps (section 3.4; O2U-Net, Huang et al.
    2019).

    The classifier starts from the normalised class means of `given` and a bias of 0, and is trained by full-batch
    gradient descent with momentum and weight decay. Its weights are linear combinations of the points, so only its
    scores are stored.

    Args:
        points: (B, M) points, not shifted.
        given: (B, K, M) one-hot labels of the points that initialise the classifier, 0 for the others.
        labels: (B, K, M) one-hot labels of all points.
        valid: (B, M) bool, False for padded points, which have weight 0.
        steps: number of training steps.
    """
    means = given / given.sum(dim=2, keepdim=True).clamp_min(1)
    scores = points.inner(means)
    norms = (scores * means).sum(dim=2, keepdim=True).clamp_min(1e-24).sqrt()
    scores = scores / norms
    # a constant feature of 1, whose weight is the bias
    lifted = (
        Features(pad(points.values, (0, 1), value=1.0)) if isinstance(points, Features) else Gram(points.pairwise() + 1)
    )
    share = (valid / valid.sum(dim=1, keepdim=True)).to(scores.dtype)[:, None]
    targets = labels * share
    total, step = torch.zeros_like(scores), torch.zeros_like(scores)
    for _ in range(steps):
        log_probabilities = torch.log_softmax(scores, dim=1)
        total += log_probabilities
        errors = log_probabilities.exp_().mul_(share).sub_(targets)
        step = lifted.inner(errors).add_(step, alpha=MOMENTUM).add_(scores, alpha=WEIGHT_DECAY)
        scores = scores.sub_(step, alpha=LEARNING_RATE)
    return -(total * labels).sum(dim=1) / steps
