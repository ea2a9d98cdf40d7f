"""How hard labels are to learn: losses of a linear classifier while it is trained on them (O2U-Net, Huang et al. 2019;
taken up by iLPC, Lazarou et al. 2021, section 3.4)."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from clustering.optimiser.points import Features, Gram, Points


def mean_losses(
    points: Points,
    given: Tensor,
    labels: Tensor,
    valid: Tensor,
    *,
    steps: int = 1000,
    learning_rate: float = 0.1,
    weight_decay: float = 5e-4,
    momentum: float = 0.9,
) -> Tensor:
    """(B, M) cross-entropy of every point's label, averaged over the steps of training.

    The classifier starts with the normalised class means of `given` and a bias of 0, and takes full-batch steps of
    gradient descent with momentum and weight decay. Its weights stay sums of the points, so that its scores are all
    that is kept of it.

    Args:
        points: (B, M), not moved.
        given: (B, K, M) one-hot labels of the points that the classifier starts with, 0 elsewhere.
        labels: (B, K, M) one-hot labels of all points.
        valid: (B, M) bool, False for padded points, which weigh nothing.
        steps: of training.
        learning_rate: of the training.
        weight_decay: of the weights and the bias.
        momentum: of the steps.
    """
    means = given / given.sum(dim=2, keepdim=True).clamp_min(1)
    scores = points.inner(means)
    norms = (scores * means).sum(dim=2, keepdim=True).clamp_min(1e-24).sqrt()
    scores = scores / norms
    lifted = _with_bias(points)
    share = (valid / valid.sum(dim=1, keepdim=True)).to(scores.dtype)[:, None]
    targets = labels * share
    total, step = torch.zeros_like(scores), torch.zeros_like(scores)
    for _ in range(steps):
        log_probabilities = torch.log_softmax(scores, dim=1)
        total += log_probabilities
        errors = log_probabilities.exp_().mul_(share).sub_(targets)
        step = lifted.inner(errors).add_(step, alpha=momentum).add_(scores, alpha=weight_decay)
        scores = scores.sub_(step, alpha=learning_rate)
    return -(total * labels).sum(dim=1) / steps


def _with_bias(points: Points) -> Points:
    """The points with one more feature, which is 1 for all of them: its weight is the classifier's bias."""
    return (
        Features(pad(points.values, (0, 1), value=1.0)) if isinstance(points, Features) else Gram(points.pairwise() + 1)
    )
