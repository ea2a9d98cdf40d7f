"""Entropy clustering without EM: pseudo-labels are squared predictions over the sizes of clusters (Xie et al. 2016)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import one_hot

from clustering.deep.losses import cross_entropy
from clustering.deep.objectives import disagreement, error_of_known
from clustering.optimiser.alternation import Clamp


@dataclass(frozen=True)
class Sharpened:
    """Cross-entropy with labels that are more confident than the predictions.

    Attributes:
        agreement: weight of the views' symmetric divergence; a network sets it.
    """

    takes_prior: ClassVar[bool] = True

    agreement: float = 1.0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor:
        p = log_p.exp()  # (…, N, K)
        sharp = prior * p.square() / p.sum(-2, keepdim=True)
        labels = sharp / sharp.sum(-1, keepdim=True)
        if known is None:
            return labels
        mask, classes = known  # (N,) each
        return labels.where(~mask[..., None], one_hot(classes, p.shape[-1]).to(p))

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        assert targets is not None
        value = cross_entropy(views[0], targets)
        value = value + error_of_known(views, known)  # few known rows need a term of their own
        return value + self.agreement * disagreement(views)
