"""Sizes of the networks: features, the last map and its stride, parameters, as measured on an image.

    python benchmarks/backbones.py [--size 84] [network ...]

A table in Markdown, as in docs/how_to/base-training.md; any network of timm may be named.
"""

import argparse
import math

import torch
from torch import Tensor, nn

from fsl.backbones import OWN, create_backbone


def last_map(network: nn.Module, images: Tensor) -> int:
    """Side of the last map, before it is averaged or flattened; 0 of networks without maps."""
    sides: list[int] = []

    def look(module: nn.Module, given: object, found: object) -> None:
        if isinstance(found, Tensor) and min(found.shape[2:]) > 1:
            sides.append(found.shape[-1])

    kinds = (nn.Conv2d, nn.MaxPool2d)
    hooks = [module.register_forward_hook(look) for module in network.modules() if isinstance(module, kinds)]
    with torch.inference_mode():
        network(images)
    for hook in hooks:
        hook.remove()
    return sides[-1] if sides else 0


def row(name: str, size: int) -> tuple[str, ...]:
    """Name, input, features, last map, stride, parameters."""
    network = create_backbone(name, channels=3, size=size).eval()
    side = last_map(network, torch.zeros(1, 3, size, size))
    parameters = sum(weight.numel() for weight in network.parameters())
    stride = f"{2 ** round(math.log2(size / side))}" if side else ""
    maps = f"{side} x {side}" if side else ""
    return name, f"3 x {size} x {size}", f"{network.feature_size}", maps, stride, f"{parameters:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(OWN))
    parser.add_argument("--size", type=int, default=84, help="side of the images in pixels")
    options = parser.parse_args()
    print("| network | images | features | last map | stride | parameters |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name in options.networks:
        print("| " + " | ".join(row(name, options.size)) + " |")


if __name__ == "__main__":
    main()
