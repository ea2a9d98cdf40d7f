"""Per-feature transforms of SimpleShot (Wang et al. 2019; thesis section 1.2.3, journal section 6.4).

    UN    z = x
    L2N   z = x / ||x||
    CL2N  z = (x - base_mean) / ||x - base_mean||

`base_mean` is the mean of the raw features of all base-class images, never of novel data. A zero vector stays zero.
"""

from typing import Literal

from torch import Tensor
from torch.nn.functional import normalize

from clustering.errors import InputError

Transform = Literal["UN", "L2N", "CL2N"]


def transform_features(features: Tensor, transform: Transform, base_mean: Tensor | None = None) -> Tensor:
    """Apply a per-feature transform.

    Args:
        features: (..., D) raw features.
        transform: UN, L2N or CL2N.
        base_mean: (D,) or (B, 1, D), needed by CL2N.

    Returns:
        (..., D), of the same dtype.

    Raises:
        InputError: CL2N without a base mean.
    """
    if transform == "UN":
        return features
    if transform == "CL2N":
        if base_mean is None:
            raise InputError("transform CL2N needs the mean of the base-class features; give base_mean, or use L2N")
        features = features - base_mean
    return normalize(features, dim=-1, eps=1e-12)
