"""Transductive fine-tuning (Dhillon, Chaudhari, Ravichandran and Soatto 2020, "A Baseline for Few-Shot Image
Classification"): the whole network is trained on each task."""

import copy
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from clustering.foundation.errors import InputError
from clustering.foundation.memory import require
from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.foundation.streams import stream_key
from clustering.optimiser.adam import Adam
from fsl.episodes import Episodes, Predictions
from fsl.features.pictures import Pictures
from fsl.transforms import Transform, transform_features

_ACTIVATIONS = {"cpu": 1 << 28, "cuda": 1 << 33}
"""Bytes that the backward pass keeps of the images worked on at once: a step adds up their gradients."""


@dataclass(frozen=True)
class TransductiveFineTuning:
    """A copy of the network, with a linear head on its transformed features, minimises by Adam the support's
    cross-entropy plus the queries' mean entropy (eq. 8 of the paper):

        mean_s( -log p_s,y_s ) + weight mean_q H(p_q),   p_i = softmax( W z_i + b ),   z = transform( relu(network(x)) )

    The head starts from the support: w_k is the transformed class mean, b = 0 (section 3.2). In the paper the network
    ends in the logits of the base classes; the weights here come without that layer, so z is made of the features in
    their place. Every step takes all images of the task. The paper's public code steps on the two terms in turn, with
    the network in training mode and augmented images, which is near to batch_norm="task" and augment=True.

    Tasks are tuned one by one: their networks share nothing once they have changed, and grouped convolutions, which
    would run several at once, are slower on a processor.

    Attributes:
        transform: of the network's features, after a ReLU; the paper's is L2N.
        weight: of the entropy, 1 in the paper; 0 leaves the support's cross-entropy.
        learning_rate: of Adam, 5e-5 in the paper (section 4).
        iterations: steps of Adam; 25 epochs in the paper.
        batch_norm: normalise by the statistics of the "base" classes, as features are extracted; or of the "task",
            which all its images share, support and queries, so that they have to be in memory together.
        augment: change the images at random in each step, as in base training; the predictions are of unchanged ones.
        seed: of these changes.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False
    needs: ClassVar[str] = "images and the network"
    needs_images: ClassVar[bool] = True

    transform: Transform = "L2N"
    weight: Annotated[float, AtLeast(0)] = 1.0
    learning_rate: Annotated[float, Above(0)] = 5e-5
    iterations: Annotated[int, AtLeast(0)] = 25
    batch_norm: Literal["base", "task"] = "base"
    augment: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the loss before each step.

        Raises:
            InputError: episodes without images, or statistics of a task whose images are too many for the memory.
        """
        shown = episodes.pictures
        if shown is None:
            raise InputError(
                "trains the network on the images of each task, and here are features alone; give a benchmark with its "
                "images and weights, or take entropy_min, which moves the classifier on features"
            )
        targets = torch.nn.functional.pad(episodes.support_one_hot, (0, 0, 0, episodes.query_size))
        probabilities = torch.full_like(targets, 1 / episodes.way)  # which padded queries keep
        losses = targets.new_zeros(self.iterations, len(targets), dtype=torch.float64)
        with torch.enable_grad():
            for i, valid in enumerate(episodes.valid):
                task = _Task(self, shown.pictures, shown.rows[i, valid], targets[i, valid], episodes.base_mean)
                losses[:, i] = task.tune()
                probabilities[i, valid] = task.log_probabilities().exp()
        return Predictions(
            probabilities[:, episodes.support_size :],
            torch.full((len(targets),), self.iterations, dtype=torch.int64, device=targets.device),
            losses,
        )


class _Task:
    """One task's copy of the network, and its head. n images, of which the support has targets."""

    def __init__(
        self,
        settings: TransductiveFineTuning,
        pictures: Pictures,
        rows: Tensor,
        targets: Tensor,
        base_mean: Tensor | None,
    ) -> None:
        """Of (n,) rows of the pictures, their (n, K) one-hot classes, zero of queries, and the base mean."""
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
        """Take the steps; gives the (iterations,) float64 losses before each."""
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
        """(n, K) of the images as they are."""
        with torch.no_grad():
            return torch.cat([self._log_probabilities(self.plain[piece]) for piece in self.pieces])

    def _log_probabilities(self, pixels: Tensor) -> Tensor:
        features = self.network(pixels).relu()
        features = transform_features(features, self.settings.transform, self.base_mean)
        return torch.log_softmax(nn.functional.linear(features, self.head, self.bias), dim=1)

    def _loss(self, pixels: Tensor, piece: slice) -> Tensor:
        """What some of the images add to the loss."""
        log_p = self._log_probabilities(pixels[piece])
        cross = -(self.targets[piece] * log_p).sum(1)
        entropy = -(log_p.exp() * log_p).sum(1)
        return cross @ self.share[piece] + self.settings.weight * (entropy @ self.query_share[piece])

    def _augmented(self, step: int) -> Tensor:
        """The images as they are seen in a step. What befalls one follows from its place among those of its task by
        their numbers in the split, whatever the order in which the task has them."""
        seed = stream_key(self.settings.seed, "transductive fine-tuning", "augmentation", step)
        order = self.rows.argsort()
        changed = self.pictures.augmentation(self.images[order], torch.Generator().manual_seed(seed))
        return self.pictures.normalised(changed[order.argsort()])

    def _pieces(self) -> list[slice]:
        """As many images at once as there is memory for; their gradients add up. With statistics of the task, all."""
        count, needed = len(self.plain), _activations(self.network, self.plain[:1])
        at_once = max(1, _ACTIVATIONS.get(self.plain.device.type, _ACTIVATIONS["cuda"]) // needed)
        if self.settings.batch_norm == "task":
            at_once = count
            if self.plain.device.type == "cpu":
                require(
                    f"batch_norm=task, with {count:,} images of a task at once,",
                    {"activations": float(count * needed)},
                    "give batch_norm=base, which takes them a few at a time",
                )
        return [slice(first, first + at_once) for first in range(0, count, at_once)]


def _activations(network: nn.Module, image: Tensor) -> int:
    """Bytes that a backward pass keeps of one image."""
    weights = {weight.untyped_storage().data_ptr() for weight in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    training = [module for module in network.modules() if module.training]
    network.eval()  # statistics of one image may not exist
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        found = network(image)
    for module in training:
        module.training = True
    del found
    return max(1, sum(kept.values()))
