"""Images of a split with the network that extracts their features, and the input of the network."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from clustering.foundation.cores import on_each_core
from clustering.foundation.devices import resolve_device
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.augmentation import normalise
from fsl.weights.pretrained import Interpolation, Look

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in grey (ITU-R BT.601)


@dataclass(frozen=True, eq=False)
class Pictures:
    """The N images of a feature bank, with the network and preprocessing that produced the features.

    Attributes:
        images: (N, C, H, W) uint8, as in a benchmark's cache.
        network: maps (n, channels, size, size) float32 to (n, D). It is shared: strategies copy it before training.
        look: input format and preprocessing, see `network_input`.

    Raises:
        InputError: there are no images, or they have a wrong dtype or shape.
    """

    images: Tensor
    network: nn.Module
    look: Look

    def __post_init__(self) -> None:
        if self.images.dim() != 4 or self.images.dtype != torch.uint8 or not len(self.images):
            raise InputError(
                f"images must be uint8 of shape (N, C, H, W), at least one, not {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}"
            )

    def shown(self, rows: Tensor, device: torch.device) -> Tensor:
        """(n, channels, size, size) network inputs of these rows, with the preprocessing of feature extraction."""
        return network_input(self.images[rows.to(self.images.device)].to(device), self.look)

    def features(self, device: str = "auto", progress: Progress = quiet) -> Tensor:
        """(N, D) float32 features on the CPU. The network is moved to the device, and returned to its previous mode.

        Args:
            device: "auto", "cpu", "cuda", "cuda:N".
            progress: shows progress.
        """
        place, training, parts = resolve_device(device), self.network.training, list[Tensor]()
        self.network.to(place, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        try:
            with progress.track("extracting features", len(self.images)) as advance:
                images = (len(self.images), lambda batch: self.images[batch.start : batch.stop])
                for batch, part in features_of(self.network, self.look, place, *images):
                    parts.append(part)
                    advance(len(batch))
        finally:
            self.network.train(training)
        return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class TaskPictures:
    """The images of B tasks.

    Attributes:
        pictures: the images of the whole split.
        rows: (B, S + Q) int64 indices of each task's images, support first.
    """

    pictures: Pictures
    rows: Tensor


def features_of(
    network: nn.Module, look: Look, device: torch.device, count: int, load: Callable[[range], Tensor]
) -> Iterator[tuple[range, Tensor]]:
    """Each batch of the indices of `count` images, and its (n, D) float32 features on the CPU, in order.

    On a CPU, each core loads and processes whole batches; otherwise the cores only load, a few batches ahead.

    Args:
        network: the network, on the device.
        look: its input format.
        device: the device.
        count: number of images.
        load: thread-safe function that gives the images of a batch (n, C, H, W), or fewer.
    """
    size, on_cpu = suitable_batch(device, look.channels * look.size**2), device.type == "cpu"

    def forward(images: Tensor) -> Tensor:
        if not len(images):
            return torch.empty(0)
        with torch.inference_mode():
            features: Tensor = network(network_input(images.to(device), look)).float().cpu()
            return features

    def work(batch: range) -> Tensor:
        return forward(load(batch)) if on_cpu else load(batch)

    for batch, part in on_each_core(work, (range(i, min(i + size, count)) for i in range(0, count, size))):
        yield batch, part if on_cpu else forward(part)


def suitable_batch(place: torch.device, numbers: int) -> int:
    """Batch size for images of `numbers` values each. On a CPU, the activations of a batch fit in a core's cache."""
    at_once = 1 << 25 if place.type != "cpu" else min(1 << 19, (1 << 23) // torch.get_num_threads())
    return max(1, min(512, at_once // numbers))


def network_input(images: Tensor, look: Look) -> Tensor:
    """The input of a network for these images (N, C, H, W) in 0..255: resized, cropped and normalised.

    Images are resized to `size / crop`, rounded down as by timm, and cropped to the central square. For size 84 and
    crop 0.875, this is torchvision's Resize(96) and CenterCrop(84), the test-time transform of SimpleShot,
    LaplacianShot and TIM. (Their public code uses it for base means and features, but not for the validation that
    selects an epoch.)

    Returns:
        (N, channels, size, size) float32.
    """
    whole = conform(images, look.channels, math.floor(look.size / look.crop), look.interpolation)
    top = round((whole.shape[2] - look.size) / 2)
    cut = whole[:, :, top : top + look.size, top : top + look.size]
    return normalise(cut, look.mean, look.std).contiguous(memory_format=torch.channels_last)


def conform(images: Tensor, channels: int, size: int, interpolation: Interpolation = "bilinear") -> Tensor:
    """Convert images to a size and number of channels; images that already have them are returned unchanged.

    Grey images are repeated to three channels; RGB images are converted to grey by their luma. Resizing interpolates,
    with antialiasing when it shrinks; overshoots of bicubic are clipped.

    Args:
        images: (N, C, H, W) in 0..255, with C = 1 or 3.
        channels: 1 or 3.
        size: height and width in pixels.
        interpolation: interpolation for resizing.

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
