"""Transductive fine-tuning (Dhillon, Chaudhari, Ravichandran and Soatto 2020, "A Baseline for Few-Shot Image
Classification"): the whole network is fine-tuned on each task."""

import copy
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast
from clustering.foundation.streams import stream_key
from clustering.optimiser.adam import Adam
from fsl.episodes import Episodes, Predictions
from fsl.features.pictures import Pictures
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform, transform_features

_AT_ONCE = {"cpu": 8}
"""Images whose activations the backward pass keeps at once; a step accumulates gradients over parts of a task."""


@dataclass(frozen=True)
class TransductiveFineTuning(Method):
    """Fine-tune a copy of the network, with a linear head on its transformed features. Adam minimises the support's
    cross-entropy plus the mean entropy of the queries (eq. 8 of the paper):

        mean_s( -log p_s,y_s ) + weight mean_q H(p_q),   p_i = softmax( W z_i + b ),   z = transform( relu(network(x)) )

    The head starts from the support: w_k is the transformed class mean, and b = 0 (section 3.2). The paper computes z
    from the logits of the base classes; checkpoints here do not contain that layer, so z is computed from the features.
    Each step uses all images of the task. The paper's public code alternates between the two terms, with the network in
    training mode and augmented images, which is similar to batch_norm="task" and augment=True.

    Tasks are processed one by one, because each has its own network, and grouped convolutions for several tasks are
    slower on a CPU.

    Attributes:
        transform: transform of the network's features after a ReLU; L2N in the paper.
        weight: weight of the entropy; 1 in the paper. 0 leaves the support's cross-entropy only.
        learning_rate: Adam's step size; 5e-5 in the paper (section 4).
        iterations: Adam's steps; 25 epochs in the paper.
        batch_norm: statistics of batch normalisation: of the "base" classes, as in feature extraction, or of the
            "task", computed over its support and queries, which must then fit in memory together.
        augment: augment the images in each step, as in base training; predictions use the original images.
        seed: seed of the augmentation.
    """

    needs: ClassVar[str] = "images and the network"
    needs_images: ClassVar[bool] = True

    transform: Transform = "L2N"
    weight: Annotated[float, AtLeast(0)] = 1.0
    learning_rate: Annotated[float, Above(0)] = 5e-5
    iterations: Annotated[int, AtLeast(0)] = 25
    batch_norm: Literal["base", "task"] = "base"
    augment: bool = False
    seed: int = 0

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
        targets = torch.nn.functional.pad(episodes.support_one_hot, (0, 0, 0, episodes.query_size))
        probabilities = torch.full_like(targets, 1 / episodes.way)  # padded queries keep this value
        losses = targets.new_zeros(self.iterations, len(targets), dtype=torch.float64)
        with torch.enable_grad():
            for i, valid in enumerate(episodes.valid):
                rows = shown.rows[i, valid.to(shown.rows.device)]  # the images stay on the processor
                task = _Task(self, shown.pictures, rows, targets[i, valid], episodes.base_mean)
                losses[:, i] = task.tune()
                probabilities[i, valid] = task.log_probabilities().exp()
        return Predictions(
            probabilities[:, episodes.support_size :],
            torch.full((len(targets),), self.iterations, dtype=torch.int64, device=targets.device),
            losses,
        )


class _Task:
    """The network and head of one task with n images, support and queries."""

    def __init__(
        self,
        settings: TransductiveFineTuning,
        pictures: Pictures,
        rows: Tensor,
        targets: Tensor,
        base_mean: Tensor | None,
    ) -> None:
        """Copy the network and initialise the head.

        Args:
            settings: the strategy.
            pictures: the images and the network.
            rows: (n,) indices of the task's images.
            targets: (n, K) one-hot classes of the support, 0 for queries.
            base_mean: (D,) mean of the base classes' features, or None.
        """
        self.settings, self.pictures, self.rows, self.base_mean = settings, pictures, rows, base_mean
        self.targets = targets.float()
        device = targets.device
        self.images = pictures.conformed(rows, device)
        self.plain = pictures.shown(rows, device)
        self.network = copy.deepcopy(pictures.network).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network.eval()
        if settings.batch_norm == "task":
            for module in self.network.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.train()
        self.pieces = self._pieces()
        support = self.targets.sum(1)
        self.share, self.query_share = support / support.sum(), (1 - support) / (1 - support).sum()
        with torch.no_grad():
            features = torch.cat([self.network(self.plain[piece]).relu() for piece in self.pieces])
            means = self.targets.T @ features / self.targets.sum(0)[:, None]
            self.head = transform_features(means, settings.transform, base_mean)
        self.bias = torch.zeros_like(self.head[:, 0])
        self.parameters = [*self.network.parameters(), self.head, self.bias]

    def tune(self) -> Tensor:
        """Run Adam's steps; returns the (iterations,) float64 losses before each step."""
        settings = self.settings
        adams = [Adam(parameter.detach(), settings.learning_rate) for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.requires_grad_()
        losses = torch.zeros(settings.iterations, dtype=torch.float64)
        for step in range(settings.iterations):
            pixels = self._augmented(step) if settings.augment else self.plain
            for piece in self.pieces:
                loss = self._loss(pixels, piece)
                torch.autograd.backward(loss)
                losses[step] += float(loss.detach())
            for parameter, adam in zip(self.parameters, adams, strict=True):
                if parameter.grad is not None:
                    adam.step(parameter.grad)
                    parameter.grad = None
        return losses

    def log_probabilities(self) -> Tensor:
        """(n, K) log-probabilities of the original images."""
        with torch.no_grad():
            return torch.cat([self._log_probabilities(self.plain[piece]) for piece in self.pieces])

    def _log_probabilities(self, pixels: Tensor) -> Tensor:
        features = self.network(pixels).relu()
        features = transform_features(features, self.settings.transform, self.base_mean)
        return torch.log_softmax(nn.functional.linear(features, self.head, self.bias), dim=1)

    def _loss(self, pixels: Tensor, piece: slice) -> Tensor:
        """Contribution of some of the images to the loss."""
        log_p = self._log_probabilities(pixels[piece])
        cross = -(self.targets[piece] * log_p).sum(1)
        entropy = -(log_p.exp() * log_p).sum(1)
        return cross @ self.share[piece] + self.settings.weight * (entropy @ self.query_share[piece])

    def _augmented(self, step: int) -> Tensor:
        """The augmented images of a step. The augmentation of an image depends on its rank among the task's images by
        index in the split, not on the order within the task."""
        seed = stream_key(self.settings.seed, "transductive fine-tuning", "augmentation", step)
        order = self.rows.argsort()
        changed = self.pictures.augmentation(self.images[order], torch.Generator().manual_seed(seed))
        return self.pictures.normalised(changed[order.argsort()])

    def _pieces(self) -> list[slice]:
        """Parts of the task, over which gradients are accumulated. One part for batch_norm="task"."""
        count = len(self.plain)
        at_once = count if self.settings.batch_norm == "task" else _AT_ONCE.get(self.plain.device.type, 256)
        return [slice(first, first + at_once) for first in range(0, count, at_once)]
