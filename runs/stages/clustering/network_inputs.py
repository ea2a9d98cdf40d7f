"""Convert the points of a data set to the inputs of a network, and check that the network accepts them."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clustering.deep.training import Augment, Prepare
from clustering.foundation.errors import InputError
from runs.stages.clustering.deep_network import DeepNetwork, Shaken

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset

OF_ROWS = ("mlp", "waves")
"""Networks whose input is rows of numbers; the others take pictures."""

LARGEST = 256
"""Largest side, in pixels, that is tried when searching for one that fits."""


class Inputs(NamedTuple):
    """The inputs of a network.

    Attributes:
        points: (N, C, H, W) uint8 pictures, or (N, D) float32 rows.
        channels: C, or D.
        size: H of images after the crop; 0 for rows.
        augment: function that makes random views.
        prepare: function that scales and crops.
    """

    points: Tensor
    channels: int
    size: int
    augment: Augment
    prepare: Prepare


def inputs_of(network: DeepNetwork, data: "Dataset") -> Inputs:
    """Return the points of a data set as inputs of a network.

    Raises:
        InputError: rows for a network on images, or images for a network on rows.
    """
    values = data.values
    if network.architecture in OF_ROWS:
        rows = torch.from_numpy(np.asarray(values.todense() if hasattr(values, "todense") else values, np.float32))
        mean, deviation = float(rows.double().mean()), float(rows.double().std()) or 1.0
        return Inputs(
            rows, rows.shape[1], 0, Shaken(network.noise * deviation), lambda part: (part.float() - mean) / deviation
        )
    if data.picture is None:
        raise InputError(
            f"network={network.architecture} is for pictures, and these points are rows of {values.shape[1]} numbers; "
            "choose network=mlp or network=waves, or leave network out"
        )
    height, width = data.picture
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255 / ((high - low) or 1))
    points = torch.from_numpy(scaled.round().astype(np.uint8)).view(-1, data.channels, height, width)
    size = min(height, width) if network.inner is None else network.inner
    if size > min(height, width):
        raise InputError(f"network.inner={size}: the pictures are of {height} x {width} pixels; set inner to less")
    top, left = (height - size) // 2, (width - size) // 2
    window = (..., slice(top, top + size), slice(left, left + size))
    seen = points[window].double()
    mean, deviation = float(seen.mean()), float(seen.std()) or 1.0

    def prepare(part: Tensor) -> Tensor:
        return ((part[window].float() - mean) / deviation).contiguous(memory_format=torch.channels_last)

    return Inputs(points, data.channels, size, network.changes, prepare)


def check_fits(network: DeepNetwork, inputs: Inputs) -> None:
    """Check that the network accepts the points.

    Raises:
        InputError: it does not; the message gives the smallest side that fits.
    """
    if _fits(network, inputs.channels, inputs.size):
        return
    needed = next((side for side in range(inputs.size + 1, LARGEST + 1) if _fits(network, inputs.channels, side)), None)
    remedy = (
        "choose another network" if needed is None else f"it needs {needed} x {needed} or more: set inner or size so"
    )
    raise InputError(
        f"network={network.architecture} does not take pictures of {inputs.size} x {inputs.size} pixels; {remedy}"
    )


def _fits(network: DeepNetwork, channels: int, size: int) -> bool:
    example = torch.zeros(2, channels, size, size) if size else torch.zeros(2, channels)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        backbone = network.backbone(channels, size)().eval()
        try:
            return bool(backbone(example).numel())
        except RuntimeError:  # the feature maps of some layer are empty
            if size:
                return False
            raise
