"""The networks of the papers as their public code computes them, from weights under its names.

Of SimpleShot, LaplacianShot and TIM (ResNet, WRN, DenseNet), of the MobileNet that goes with them, and of ResNet-12 as
most programs have it. A forward pass draws each weight where it first needs it; what it drew is the state dict.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


class Drawn(dict[str, Tensor]):
    """Weights by name, in the order of their use; statistics are those of the first images: nothing explodes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def convolution(
        self, name: str, maps: Tensor, outputs: int, side: int, stride: int = 1, groups: int = 1, bias: bool = False
    ) -> Tensor:
        inputs = maps.shape[1] // groups
        weight = self._once(f"{name}.weight", lambda: self._normal(outputs, inputs, side, side) / (inputs**0.5 * side))
        shift = self._once(f"{name}.bias", lambda: self._normal(outputs)) if bias else None
        return functional.conv2d(maps, weight, shift, stride, side // 2, groups=groups)

    def norm(self, name: str, maps: Tensor) -> Tensor:
        channels = maps.shape[1]
        scale = self._once(f"{name}.weight", lambda: self._normal(channels).abs() * 3)  # some activations pass 6
        shift = self._once(f"{name}.bias", lambda: self._normal(channels))
        mean = self._once(f"{name}.running_mean", lambda: maps.mean((0, 2, 3)))
        variance = self._once(f"{name}.running_var", lambda: maps.var((0, 2, 3)) + 0.1)
        return functional.batch_norm(maps, mean, variance, scale, shift)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def _once(self, name: str, draw: Callable[[], Tensor]) -> Tensor:
        if name not in self:
            self[name] = draw().float()  # as files have it
        return self[name].double()


def resnet(weights: Drawn, images: Tensor, blocks: tuple[int, ...] = (2, 2, 2, 2), bottleneck: bool = False) -> Tensor:
    maps = weights.norm("bn1", weights.convolution("conv1", images, 64, 3)).relu()
    for stage, count in enumerate(blocks):
        for i in range(count):
            name, width, stride = f"layer{stage + 1}.{i}", 64 << stage, 2 if stage and not i else 1
            sides, widths = ((1, 3, 1), (width, width, 4 * width)) if bottleneck else ((3, 3), (width, width))
            strides = (1, stride, 1) if bottleneck else (stride, 1)
            inner = maps
            for j, (side, outputs, step) in enumerate(zip(sides, widths, strides, strict=True), 1):
                inner = inner.relu() if j > 1 else inner
                inner = weights.norm(
                    f"{name}.bn{j}", weights.convolution(f"{name}.conv{j}", inner, outputs, side, step)
                )
            if maps.shape != inner.shape:
                maps = weights.convolution(f"{name}.downsample.0", maps, inner.shape[1], 1, stride)
                maps = weights.norm(f"{name}.downsample.1", maps)
            maps = (maps + inner).relu()
    return maps.mean((2, 3))


def wide_resnet(weights: Drawn, images: Tensor) -> Tensor:
    maps = weights.convolution("conv1", images, 16, 3, bias=True)
    for stage, width in enumerate((160, 320, 640), 1):
        for i in range(4):
            name, stride = f"layer{stage}.{i}", 2 if stage > 1 and not i else 1
            inner = weights.norm(f"{name}.bn1", maps).relu()
            inner = weights.convolution(f"{name}.conv1", inner, width, 3, bias=True)
            inner = weights.norm(f"{name}.bn2", inner).relu()
            inner = weights.convolution(f"{name}.conv2", inner, width, 3, stride, bias=True)
            if not i:
                maps = weights.convolution(f"{name}.shortcut.0", maps, width, 1, stride, bias=True)
            maps = maps + inner
    return weights.norm("bn1", maps).relu().mean((2, 3))


def densenet(weights: Drawn, images: Tensor) -> Tensor:
    maps = weights.convolution("features.conv0", images, 64, 3)
    for block, layers in enumerate((6, 12, 24, 16), 1):
        for i in range(1, layers + 1):
            name = f"features.denseblock{block}.denselayer{i}"
            inner = weights.convolution(f"{name}.conv1", weights.norm(f"{name}.norm1", maps).relu(), 128, 1)
            inner = weights.convolution(f"{name}.conv2", weights.norm(f"{name}.norm2", inner).relu(), 32, 3)
            maps = torch.cat([maps, inner], 1)
        if block < 4:
            name = f"features.transition{block}"
            maps = weights.norm(f"{name}.norm", maps).relu()
            maps = functional.avg_pool2d(weights.convolution(f"{name}.conv", maps, maps.shape[1] // 2, 1), 2)
    return weights.norm("features.norm5", maps).relu().mean((2, 3))


def mobilenet(weights: Drawn, images: Tensor) -> Tensor:
    maps = weights.norm("bn1", weights.convolution("conv1", images, 32, 3)).relu()
    widths = (64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)
    for i, width in enumerate(widths):
        name, inputs, stride = f"layers.{i}", maps.shape[1], 2 if i in (1, 3, 5, 11) else 1
        maps = weights.convolution(f"{name}.conv1", maps, inputs, 3, stride, groups=inputs)
        maps = weights.norm(f"{name}.bn1", maps).relu()
        maps = weights.norm(f"{name}.bn2", weights.convolution(f"{name}.conv2", maps, width, 1)).relu()
    return maps.mean((2, 3))


def resnet12(weights: Drawn, images: Tensor) -> Tensor:
    maps = images
    for stage, width in enumerate((64, 160, 320, 640), 1):
        name, inner = f"layer{stage}.0", maps
        for j in (1, 2, 3):
            inner = functional.leaky_relu(inner, 0.1) if j > 1 else inner
            inner = weights.norm(f"{name}.bn{j}", weights.convolution(f"{name}.conv{j}", inner, width, 3))
        beside = weights.norm(f"{name}.downsample.1", weights.convolution(f"{name}.downsample.0", maps, width, 1))
        maps = functional.max_pool2d(functional.leaky_relu(inner + beside, 0.1), 2)
    return maps.mean((2, 3))
