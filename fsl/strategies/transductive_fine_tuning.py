"""Transductive fine-tuning (Dhillon, Chaudhari, Ravichandran and Soatto 2020, "A Baseline for Few-Shot Image
Classification"): the whole network is fine-tuned on each task."""

import copy
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform, transform_features

_AT_ONCE = {"cpu": 8, "cuda": 256}
"""Images whose activations the backward pass keeps at once; a step accumulates gradients over parts of a task."""


@dataclass(frozen=True)
class TransductiveFineTuning(Method):
    """Fine-tune a copy of the network, with a linear head on its transformed features. Adam minimises the support's
    cross-entropy plus the mean entropy of the queries (eq. 8 of the paper):

        mean_s( -log p_s,y_s ) + mean_q H(p_q),   p_i = softmax( W z_i + b ),   z = transform( relu(network(x)) )

    The head starts from the support: w_k is the transformed class mean, and b = 0 (section 3.2). The paper computes z
    from the logits of the base classes; checkpoints here do not contain that layer, so z is computed from the features.
    Each step uses all images of the task. Batch normalisation keeps the statistics of the base classes, as in feature
    extraction. The paper's public code alternates between the two terms, with the network in training mode and
    augmented images.

    Tasks are processed one by one, because each has its own network, and grouped convolutions for several tasks are
    slower on a CPU.

    Attributes:
        transform: transform of the network's features after a ReLU; L2N in the paper.
        learning_rate: Adam's step size; 5e-5 in the paper (section 4).
        max_iter: Adam's steps; 25 epochs in the paper.
    """

    needs: ClassVar[str] = "images and the network"
    needs_images: ClassVar[bool] = True

    transform: Transform = "L2N"
    learning_rate: Annotated[float, Above(0)] = 5e-5
    max_iter: Annotated[int, AtLeast(0)] = 25

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the loss before each step.

        Raises:
            InputError: the episodes have no images.
        """
        shown = episodes.pictures
        if shown is None:
            raise InputError(
                "transductive fine-tuning trains the network on images, but only features are given; use a benchmark "
                "with images and weights, or entropy_min, which trains the classifier on features"
            )
        targets = nn.functional.pad(episodes.support_one_hot, (0, 0, 0, episodes.query_size))
        probabilities = torch.full_like(targets, 1 / episodes.way)  # padded queries keep this value
        losses = targets.new_zeros(self.max_iter, len(targets), dtype=torch.float64)
        for i, valid in enumerate(episodes.valid):
            rows = shown.rows[i, valid.to(shown.rows.device)]  # the images stay on the processor
            pixels = shown.pictures.shown(rows, targets.device)
            with torch.enable_grad():
                losses[:, i], log_p = self._tuned(
                    shown.pictures.network, pixels, targets[i, valid].float(), episodes.base_mean
                )
            probabilities[i, valid] = log_p.exp().to(probabilities.dtype)
        steps = torch.full((len(targets),), self.max_iter, dtype=torch.int64, device=targets.device)
        return Predictions(probabilities[:, episodes.support_size :], steps, losses)

    def _tuned(
        self, network: nn.Module, pixels: Tensor, targets: Tensor, base_mean: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Tune a copy of the network on one task.

        Args:
            network: the network, which is not changed.
            pixels: (n, C, H, W) its inputs, of support and queries.
            targets: (n, K) one-hot classes of the support, 0 for queries.
            base_mean: (D,) mean of the base classes' features, or None.

        Returns:
            The (iterations,) losses before each step, and (n, K) log-probabilities after the last one.
        """
        network = copy.deepcopy(network).to(pixels.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        at_once, support = _AT_ONCE[pixels.device.type], targets.sum(1)
        parts = [slice(first, first + at_once) for first in range(0, len(pixels), at_once)]
        shares, query_shares = support / support.sum(), (1 - support) / (1 - support).sum()
        with torch.no_grad():
            features = torch.cat([network(pixels[part]).relu() for part in parts])
            means = targets.T @ features / targets.sum(0)[:, None]
            head = transform_features(means, self.transform, base_mean).clone()
        bias = torch.zeros_like(head[:, 0])
        parameters = [parameter.requires_grad_() for parameter in (*network.parameters(), head, bias)]
        adam = torch.optim.Adam(parameters, self.learning_rate)

        def log_probabilities(part: slice) -> Tensor:
            points = transform_features(network(pixels[part]).relu(), self.transform, base_mean)
            return torch.log_softmax(nn.functional.linear(points, head, bias), dim=1)

        losses = torch.zeros(self.max_iter, dtype=torch.float64)
        for step in range(self.max_iter):
            adam.zero_grad()
            for part in parts:
                log_p = log_probabilities(part)
                cross, entropy = -(targets[part] * log_p).sum(1), -(log_p.exp() * log_p).sum(1)
                loss = cross @ shares[part] + entropy @ query_shares[part]
                torch.autograd.backward(loss)
                losses[step] += float(loss.detach())
            adam.step()
        with torch.no_grad():
            return losses, torch.cat([log_probabilities(part) for part in parts])
