"""Images of a split with the network that extracts their features, and the input of the network."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.augmentation import normalise
from fsl.machine import resolve_device
from fsl.weights.pretrained import Interpolation

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in grey (ITU-R BT.601)


@dataclass(frozen=True, eq=False)
class Pictures:
    """The N images of a feature bank, with the network and preprocessing that produced the features.

    Attributes:
        images: (N, C, H, W) uint8, as in a benchmark's cache.
        network: maps (n, len(mean), size, size) float32 to (n, D). It is shared: strategies copy it before training.
        mean, std, size, interpolation, crop_pct: preprocessing, see `network_input`.

    Raises:
        InputError: there are no images, or they have a wrong dtype or shape.
    """

    images: Tensor
    network: nn.Module
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int
    interpolation: Interpolation = "bilinear"
    crop_pct: float | None = None

    def __post_init__(self) -> None:
        if self.images.dim() != 4 or self.images.dtype != torch.uint8 or not len(self.images):
            raise InputError(
                f"images must be uint8 of shape (N, C, H, W), at least one, not {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}"
            )

    def shown(self, rows: Tensor, device: torch.device) -> Tensor:
        """(n, len(mean), size, size) network inputs of these rows, with the preprocessing of feature extraction."""
        return self._input(self.images[rows.to(self.images.device)].to(device))

    def features(self, device: str = "auto", progress: Progress = quiet) -> Tensor:
        """(N, D) float32 features on the CPU. The network is moved to the device, and returned to its previous mode.

        Args:
            device: "auto", "cpu", "cuda", "cuda:N".
            progress: shows progress.
        """
        place, training = resolve_device(device), self.network.training
        self.network.to(place, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]

        def work(batch: Tensor) -> Tensor:
            return forward(self.network, self._input(batch.to(place)))

        batches = torch.split(self.images, suitable_batch(place, len(self.mean) * self.size**2))
        parts = on_each_core(work, batches) if place.type == "cpu" else ((batch, work(batch)) for batch in batches)
        features, filled = torch.empty(0), 0
        try:
            with progress.track("extracting features", len(self.images)) as advance:
                for _, part in parts:
                    if not filled:
                        features = torch.empty(len(self.images), part.shape[1])
                    features[filled : filled + len(part)] = part
                    filled += len(part)
                    advance(len(part))
        finally:
            self.network.train(training)
        return features

    def _input(self, images: Tensor) -> Tensor:
        return network_input(images, self.mean, self.std, self.size, self.interpolation, self.crop_pct)


@dataclass(frozen=True, eq=False)
class TaskPictures:
    """The images of B tasks.

    Attributes:
        pictures: the images of the whole split.
        rows: (B, S + Q) int64 indices of each task's images, support first.
    """

    pictures: Pictures
    rows: Tensor


def conform(images: Tensor, channels: int, size: int, interpolation: Interpolation = "bilinear") -> Tensor:
    """Convert images to a size and number of channels; images that already have them are returned unchanged.

    Grey images are repeated to three channels; RGB images are converted to grey by their luma. Resizing interpolates,
    with antialiasing when it shrinks.

    Args:
        images: (N, C, H, W) in 0..255, with C = 1 or 3.
        channels: 1 or 3.
        size: height and width in pixels.
        interpolation: interpolation for resizing; overshoots of bicubic are clipped to 0..255.

    Returns:
        (N, channels, size, size) in 0..255; float32 if anything was changed.
    """
    if images.shape[1] != channels:
        grey = (images.float() * torch.tensor(LUMA, device=images.device).view(1, 3, 1, 1)).sum(1, keepdim=True)
        images = grey if channels == 1 else images.float().expand(-1, channels, -1, -1)
    if images.shape[2:] != (size, size):
        images = functional.interpolate(images.float(), size=(size, size), mode=interpolation, antialias=True)
        if interpolation == "bicubic":
            images = images.clamp_(0, 255)
    return images


def network_input(
    images: Tensor,
    mean: Sequence[float],
    std: Sequence[float],
    size: int,
    interpolation: Interpolation = "bilinear",
    crop_pct: float | None = None,
) -> Tensor:
    """The input of a network for these images: resized, cropped and normalised.

    With crop_pct, images are resized to `size / crop_pct`, rounded down as by timm, and cropped to the central square.
    For size 84 and crop_pct 0.875, this is torchvision's Resize(96) and CenterCrop(84), the test-time transform of
    SimpleShot, LaplacianShot and TIM. (Their public code uses it for base means and features, but not for the
    validation that selects an epoch.)

    Args:
        images: (N, C, H, W) in 0..255, with C = 1 or 3.
        mean, std: per-channel mean and standard deviation of the network's training images, scaled to 0..1.
        size: side of the input in pixels.
        interpolation: interpolation for resizing.
        crop_pct: fraction of each side that is kept, in 0..1; None: no crop.

    Returns:
        (N, len(mean), size, size) float32.
    """
    whole = conform(images, len(mean), size if crop_pct is None else math.floor(size / crop_pct), interpolation)
    top = round((whole.shape[2] - size) / 2)
    cut = whole[:, :, top : top + size, top : top + size]
    return normalise(cut, mean, std).contiguous(memory_format=torch.channels_last)


def forward(network: nn.Module, shown: Tensor) -> Tensor:
    """(N, D) float32 features on the CPU, of the network's input on its device."""
    with torch.inference_mode():
        features: Tensor = network(shown)
        return features.float().cpu()


def suitable_batch(place: torch.device, numbers: int) -> int:
    """Batch size for images of `numbers` values each. On a CPU, the activations of a batch fit in a core's cache."""
    if place.type != "cpu":
        return max(1, min(512, (1 << 25) // numbers))
    at_once = min(1 << 19, (1 << 23) // torch.get_num_threads())
    return max(1, min(512, at_once // numbers))
