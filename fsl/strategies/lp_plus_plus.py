"""LP++: a linear classifier that blends labelled examples and class names (Huang, Shakeri, Dolz, Boudiaf, Bahig and Ben
Ayed 2024, "LP++: A Surprisingly Strong Linear Probe for Few-Shot CLIP")."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import PublishedMethod, Variant
from fsl.transforms import Transform, unit_features

BLEND = 250.0
"""First blending parameter divided by the mean cosine of labelled examples and their class names (public code)."""

MOMENTUM = 0.9
"""Momentum of the steps in the public code."""

BLEND_EVERY = 10
"""Steps in w per step in alpha, as in the public code."""


@dataclass(frozen=True)
class LPPlusPlus(PublishedMethod):
    """The logits of x are <x, w_k + alpha_k t_k>, with the features t_k of the class names. The visual prototypes w and
    the blending parameters alpha minimise the cross-entropy of the labelled examples by gradient steps in turn.

    The step sizes come from the data. With N examples x_i, the gradient in w has the Lipschitz constant
    lambda_max(sum_i x_i x_i^T) / (2N), and that in alpha at most max_k sum_i <x_i, t_k>^2 / (2N). Steps of one over
    these constants never increase the loss. The public code, `as_published`, takes twice that step in w, with momentum,
    and a bias. There, the loss increased in some step of 12 of 256 tasks on WHU-RS19 (CLIP ViT-L/14, 4 shots).

    The loss has no minimum if the examples can be separated, so the number of steps is a regularisation. The public
    code takes the best of 300 steps by the accuracy on labelled validation images; here, the last one is taken.

    Without labelled examples this is `zero_shot`. Classes without labelled examples have w_k = 0 at the start.

    Attributes:
        variant: "corrected" never increases the loss; "published" has the steps of the public code.
    """

    transductive: ClassVar[bool] = False
    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"
    published: ClassVar[Mapping[str, Any]] = {"variant": "published"}
    max_iter: ClassVar[int] = 300

    variant: Variant = "corrected"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the loss after each step.

        Raises:
            InputError: there are probabilities of the queries, but no features of the class names.
        """
        if episodes.text is None:
            raise InputError("LP++ needs the features of the class names; give text")
        labelled = episodes.labelled
        steps = self.max_iter * labelled[:, 0, 0].long()
        if not bool(labelled.any()):
            return Predictions(torch.softmax(episodes.log_prior, dim=2), steps)
        text = unit_features(episodes.text)
        episodes = episodes.transformed(self.transform)
        weights, bias, blend, trace = self._train(episodes, text)
        logits = torch.baddbmm(bias, episodes.query, (weights + blend.mT * text).mT)
        logits = torch.where(labelled, logits, episodes.log_prior)
        return Predictions(torch.softmax(logits, dim=2), steps, trace)

    def _train(self, episodes: Episodes, text: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Prototypes (B, K, D), bias (B, 1, K), blending parameters (B, 1, K) and losses (T, B)."""
        one_hot = episodes.support_one_hot
        used = one_hot.sum(dim=2, keepdim=True)  # 0 for padding
        examples = episodes.support * used
        number = used.sum(dim=1, keepdim=True).clamp_min(1)  # 1 for tasks without examples, which remain at the start
        per_class = one_hot.sum(dim=1)
        cosines = torch.bmm(examples, text.mT)

        narrow = examples.shape[1] <= examples.shape[2]
        largest = torch.linalg.eigvalsh(examples @ examples.mT if narrow else examples.mT @ examples)[:, -1:, None]
        small = torch.finfo(examples.dtype).eps  # all examples may be 0
        published = self.variant == "published"
        step = (4 if published else 2) * number / largest.clamp_min(small)
        blend_step = number / (4 * cosines.square().sum(dim=1).amax(dim=1)[:, None, None].clamp_min(small))

        weights = torch.bmm(one_hot.mT, examples) / per_class[..., None].clamp_min(1)
        own = (one_hot * cosines).sum(dim=1) / per_class.clamp_min(1)  # mean cosine to the own class name
        first = BLEND * own.sum(dim=1) / (per_class > 0).sum(dim=1).clamp_min(1)
        blend = first[:, None, None].expand(-1, 1, episodes.way).clone()
        bias = torch.zeros_like(blend)
        speed, bias_speed = torch.zeros_like(weights), torch.zeros_like(bias)

        def slope() -> tuple[Tensor, Tensor]:
            """(B, S, K) gradient of the loss in the logits, and the loss (B,)."""
            logs = torch.log_softmax(torch.baddbmm(bias + blend * cosines, examples, weights.mT), dim=2)
            loss = -(one_hot * logs).sum(dim=(1, 2)) / number[:, 0, 0]
            return (logs.exp() * used - one_hot) / number, loss

        losses = []
        for iteration in range(1, self.max_iter + 1):
            gradient, loss = slope()
            losses.append(loss)
            change = torch.bmm(gradient.mT, examples)
            if published:
                speed = MOMENTUM * speed + change
                bias_speed = MOMENTUM * bias_speed + gradient.sum(dim=1, keepdim=True)
                weights, bias = weights - step * speed, bias - step * bias_speed
            else:
                weights = weights - step * change
            if iteration % BLEND_EVERY == 0:
                if not published:  # the public code uses the gradient before the step in w
                    gradient, _ = slope()
                blend = blend - blend_step * (gradient * cosines).sum(dim=1, keepdim=True)
        losses.append(slope()[1])
        return weights, bias, blend, torch.stack(losses)
