"""Per-feature transforms of SimpleShot (Wang et al. 2019; thesis section 1.2.3, journal section 6.4).

    UN    z = x
    L2N   z = x / ||x||; x itself if its norm is 1 up to the rounding of half precision
    CL2N  z = (x - base_mean) / ||x - base_mean||
    PT    z = (x + 1e-6)^(1/2) for each coordinate, then z / ||z||; requires x >= 0, as after a ReLU

`base_mean` is the mean of the raw features of all base-class images, never of novel data. Zero vectors stay zero,
except for PT. PT is the power transform of PT-MAP (Hu, Gripon and Pateux 2021), which makes the skewed distribution of
features after a ReLU closer to a Gaussian.
"""

from typing import Literal

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.lengths import unit_rows

Transform = Literal["UN", "L2N", "CL2N", "PT"]

_SMALL = 1e-6  # offset of the power transform

_ROUNDED = 1e-3  # deviation from norm 1 of a vector that was normalised in half precision


def unit_features(features: Tensor) -> Tensor:
    """Features (..., D) divided by their norm. Features whose norm is 1 up to the rounding of half precision are
    unchanged, as in the public codes of CLIP: they normalise in half precision, and not again in single precision."""
    rounded = (features.norm(dim=-1, keepdim=True) - 1).abs() < _ROUNDED
    if bool(rounded.all()):
        return features
    return torch.where(rounded, features, unit_rows(features))


def transform_features(features: Tensor, transform: Transform, base_mean: Tensor | None = None) -> Tensor:
    """Apply a per-feature transform.

    Args:
        features: (..., D) raw features.
        transform: UN, L2N, CL2N or PT.
        base_mean: (D,) mean of the base classes, required by CL2N.

    Returns:
        (..., D) transformed features, of the same dtype.

    Raises:
        InputError: CL2N without a base mean, or PT on negative features.
    """
    if transform == "UN":
        return features
    if transform == "L2N":
        return unit_features(features)
    if transform == "CL2N":
        if base_mean is None:
            raise InputError("transform CL2N needs the mean of the base-class features; give base_mean, or use L2N")
        features = features - base_mean
    if transform == "PT":
        lowest = float(features.min())
        if lowest < 0:
            raise InputError(
                f"transform PT requires non-negative features, but the smallest is {lowest:.4g}; use features after "
                "the last ReLU, without centring, or choose transform=L2N or CL2N"
            )
        features = (features + _SMALL).sqrt_()
    return unit_rows(features)
