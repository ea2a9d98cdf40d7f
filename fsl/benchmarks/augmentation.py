"""Random augmentation of batches of images, each image by its own parameters, and normalisation of all images.

torchvision's transforms change an image at a time, or a whole batch alike. For grey images of 28 pixels, RandomAffine
takes 20 times as long for each image as `Augmentation` does in a batch. Colours change as by torchvision's ColorJitter,
in the order brightness, contrast, saturation. All geometric changes of an image are combined into one affine map, so
that each pixel is interpolated once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional

from clustering.foundation.parameters import AtLeast, Validated, Within


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Compute `(images / 255 - mean) / std` per channel: (N, C, H, W) in 0..255 of any dtype -> float32."""
    shape = (1, len(mean), 1, 1)
    factor = torch.tensor([1 / (255 * s) for s in std], device=images.device).view(shape)
    offset = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=images.device).view(shape)
    return torch.addcmul(offset, images.float(), factor)


Changes = dict[str, Tensor]
"""The random parameters of N images: (N, 2, 3) `maps` from output to input positions, both in -1..1, and (N,) factors
of `brightness`, `contrast` and `saturation`; without those of changes that are not applied."""


@dataclass(frozen=True)
class Augmentation(Validated):
    """Random affine maps, flips and colour jitter; the default changes nothing.

    Attributes:
        rotation: largest angle in degrees; the angle is uniform in -rotation to rotation.
        translation: largest shift along each axis, as a fraction of the side.
        scale: largest relative change of size; the factor is log-uniform in 1/(1 + scale) to 1 + scale.
        shear: largest horizontal shear in degrees.
        flip: whether each image is mirrored left to right with probability 1/2.
        crop: smallest fraction of the area that a random resized crop keeps (aspect 3/4 to 4/3); 1 disables it.
        brightness, contrast, saturation: largest relative change x; the factor is uniform in 1 - x to 1 + x.

    Pixels from outside the image are 0.
    """

    rotation: Annotated[float, Within(0, 180)] = 0.0
    translation: Annotated[float, Within(0, 1)] = 0.0
    scale: Annotated[float, AtLeast(0)] = 0.0
    shear: Annotated[float, Within(0, 80)] = 0.0
    flip: bool = False
    crop: Annotated[float, Within(0.01, 1)] = 1.0
    brightness: Annotated[float, Within(0, 1)] = 0.0
    contrast: Annotated[float, Within(0, 1)] = 0.0
    saturation: Annotated[float, Within(0, 1)] = 0.0

    def adapted(self, crop: float | None, jitter: float) -> "Augmentation":
        """The augmentation with another crop and weaker other changes; flips are kept.

        Args:
            crop: smallest fraction of the area kept; 1 for whole images, None for the crop of this augmentation.
            jitter: factor, 0 to 1, of the extents of the changes of colour, rotation, translation, scale and shear.
        """
        kept: dict[str, Any] = {"flip": self.flip, "crop": self.crop if crop is None else crop}
        return Augmentation(**{name: extent * jitter for name, extent in asdict(self).items()} | kept)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Change each image by its own random parameters.

        Args:
            images: (N, C, H, W), uint8 or float in 0..255.
            generator: a CPU generator, so that the random parameters are the same on every device.

        Returns:
            (N, C, H, W) float32 in 0..255.
        """
        return self.apply(images, self.draw(len(images), generator))

    def draw(self, count: int, generator: torch.Generator) -> Changes:
        """Draw the random parameters of `count` images. The images themselves are not needed."""
        moves = self.rotation or self.translation or self.scale or self.shear or self.flip or self.crop < 1
        changes = {"maps": self._maps(count, generator)} if moves else {}
        for name in ("brightness", "contrast", "saturation"):
            if largest := getattr(self, name):
                changes[name] = 1 + (torch.rand(count, generator=generator) * 2 - 1) * largest
        return changes

    def apply(self, images: Tensor, changes: Changes) -> Tensor:
        """Apply the drawn parameters to (N, C, H, W) images; see `__call__`."""
        images = images.float()
        factors = {name: drawn.to(images.device)[:, None, None, None] for name, drawn in changes.items()}
        if "maps" in changes:
            grid = functional.affine_grid(changes["maps"].to(images.device), list(images.shape), align_corners=False)
            images = functional.grid_sample(images, grid, mode="bilinear", align_corners=False)
        if "brightness" in changes:
            images = (images * factors["brightness"]).clamp(0, 255)
        if "contrast" in changes:
            centre = _luma(images).mean(dim=(1, 2, 3), keepdim=True)
            images = torch.lerp(centre, images, factors["contrast"]).clamp(0, 255)
        if "saturation" in changes:
            images = torch.lerp(_luma(images), images, factors["saturation"]).clamp(0, 255)
        return images

    def _maps(self, count: int, generator: torch.Generator) -> Tensor:
        """(N, 2, 3) maps from output to input positions, both in -1..1."""

        def draw(largest: float) -> Tensor:
            return (torch.rand(count, generator=generator) * 2 - 1) * largest

        angle = draw(math.radians(self.rotation))
        shear = draw(math.radians(self.shear)).tan()
        zoom = draw(math.log1p(self.scale)).exp()
        # rotation times shear, divided by the zoom because the map goes from output to input
        cos, sin = angle.cos() / zoom, angle.sin() / zoom
        linear = torch.stack([cos, cos * shear - sin, sin, sin * shear + cos], dim=1).view(count, 2, 2)
        shift = torch.stack([draw(2 * self.translation), draw(2 * self.translation)], dim=1)
        if self.crop < 1:
            area = torch.rand(count, generator=generator) * (1 - self.crop) + self.crop
            stretch = draw(math.log(4 / 3)).div(2).exp()
            sides = (area.sqrt()[:, None] * torch.stack([stretch, 1 / stretch], dim=1)).clamp(max=1)
            linear = linear * sides[:, None, :]
            shift = shift + torch.stack([draw(1.0), draw(1.0)], dim=1) * (1 - sides)
        if self.flip:
            sign = torch.rand(count, generator=generator).lt(0.5).float() * 2 - 1
            linear = linear * torch.stack([sign, torch.ones(count)], dim=1)[:, None, :]
        return torch.cat([linear, shift[:, :, None]], dim=2)


Transform = Augmentation | Callable[[Tensor], Tensor]
"""An `Augmentation`, which changes batches, or a transform of one (C, H, W) uint8 image, such as torchvision's v2."""


def _luma(images: Tensor) -> Tensor:
    """(N, 1, H, W) brightness of (N, C, H, W) images, by the weights of torchvision for three channels."""
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    return torch.einsum("nchw,c->nhw", images, images.new_tensor([0.2989, 0.587, 0.114]))[:, None]
