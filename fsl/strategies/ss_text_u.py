"""SS-Text-U: class names, labelled and unlabelled pictures in closed form (Silva-Rodríguez and Konukoglu 2026,
"Semi-Supervised Few-Shot Adaptation of Vision-Language Models")."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.optimiser.transport import sinkhorn
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import Method
from fsl.strategies.shared.proportions import Proportions, class_shares
from fsl.transforms import Transform, unit_features

ABSENT = 4
"""A class without labelled examples has the smallest share of the others divided by this, as in the public code."""


@dataclass(frozen=True)
class SSTextU(Method):
    """A linear classifier whose weights are class names plus means of labelled and unlabelled pictures.

    Z = transport of the queries to classes of the shares p, with scores s cos(x_q, w_k)
    w_k <- t_k + s [n_k / (2 S) sum_{i of class k} x_i + 1 / Q sum_q z_qk x_q]

    with the features t_k of the class names, the logit scale s, and n_k of S labelled pictures. The result is
    softmax_k(s cos(x_q, w_k)) after the last update. The shares are those of the labelled pictures: the paper samples
    these from the same distribution as the others. The public code scales rows and columns ten times; here the
    transport is solved to 1e-6. There, the unlabelled pictures are others than those that are judged.

    Attributes:
        max_iter: updates of the weights, 3 in the public code; 0 leaves out the unlabelled pictures.
        proportions: class proportions of the queries, see `fsl.strategies.shared.proportions`; None: those of the
            labelled pictures, equal ones without any.
    """

    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"

    max_iter: Annotated[int, AtLeast(0)] = 3
    proportions: Proportions = None

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries.

        Raises:
            InputError: there are probabilities of the queries, but no features of the class names.
        """
        if episodes.text is None:
            raise InputError("SS-Text-U needs the features of the class names; give text")
        text, scale = unit_features(episodes.text), episodes.logit_scale
        episodes = episodes.transformed(self.transform)
        one_hot, queries = episodes.support_one_hot, episodes.valid[:, episodes.support_size :].to(episodes.dtype)
        counts = one_hot.sum(dim=1)
        pull = scale * counts / (2 * counts.sum(dim=1, keepdim=True).clamp_min(1))
        anchors = text + pull[..., None] * torch.bmm(one_hot.mT, episodes.support)
        shares = labelled_shares(counts) if self.proportions is None else class_shares(self.proportions, episodes)
        weights, scales = anchors if not self.max_iter else text, None
        for _ in range(self.max_iter):
            transport = sinkhorn(scale * episodes.query @ unit_features(weights).mT, queries, shares, start=scales)
            scales = transport.log_scales
            members = transport.assignments * (queries / queries.sum(dim=1, keepdim=True))[..., None]
            weights = anchors + scale * torch.bmm(members.mT, episodes.query)
        iterations = torch.full((len(queries),), self.max_iter, dtype=torch.int64, device=queries.device)
        return Predictions(torch.softmax(scale * episodes.query @ unit_features(weights).mT, dim=2), iterations)


def labelled_shares(counts: Tensor) -> Tensor:
    """(B, K) shares of the classes from their numbers of labelled pictures (B, K); equal ones without any."""
    smallest = counts.masked_fill(counts == 0, torch.inf).amin(dim=1, keepdim=True)
    filled = torch.where(counts > 0, counts, torch.where(smallest.isfinite(), smallest / ABSENT, 1.0))
    return filled / filled.sum(dim=1, keepdim=True)
