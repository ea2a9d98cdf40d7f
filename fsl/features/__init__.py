"""Features of images: feature banks, encoders, and features written by other programs.

Weights of networks lie in `fsl.weights`, per-feature transforms in `fsl.transforms`.
"""

from typing import TYPE_CHECKING

from clustering.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from fsl.features.bank import FeatureBank
    from fsl.features.foreign import import_features

__all__ = ["FeatureBank", "import_features"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FeatureBank": "fsl.features.bank",
        "import_features": "fsl.features.foreign",
    },
)
