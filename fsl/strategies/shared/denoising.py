"""Difficulty of labels: losses of a linear classifier during its training on them (O2U-Net, Huang et al. 2019; used by
iLPC, Lazarou et al. 2021, section 3.4)."""

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
    """(B, M) cross-entropy of each point's label, averaged over the training steps.

    The classifier starts from the normalised class means of `given` and a bias of 0, and is trained by full-batch
    gradient descent with momentum and weight decay. Its weights are linear combinations of the points, so only its
    scores are stored.

    Args:
        points: (B, M) points, not shifted.
        given: (B, K, M) one-hot labels of the points that initialise the classifier, 0 for the others.
        labels: (B, K, M) one-hot labels of all points.
        valid: (B, M) bool, False for padded points, which have weight 0.
        steps: number of training steps.
        learning_rate: step size.
        weight_decay: weight decay of weights and bias.
        momentum: momentum of the steps.
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
    """Append a constant feature of 1 to the points; its weight is the classifier's bias."""
    return (
        Features(pad(points.values, (0, 1), value=1.0)) if isinstance(points, Features) else Gram(points.pairwise() + 1)
    )
