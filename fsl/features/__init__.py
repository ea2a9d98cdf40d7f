"""Features of images: feature banks, encoders, and features written by other programs.

Weights of networks lie in `fsl.weights`, per-feature transforms in `fsl.transforms`.
"""

from typing import TYPE_CHECKING

from clustering.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from fsl.features.bank import FeatureBank
    from fsl.features.foreign import bank_of_arrays, import_features

__all__ = ["FeatureBank", "bank_of_arrays", "import_features"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FeatureBank": "fsl.features.bank",
        "bank_of_arrays": "fsl.features.foreign",
        "import_features": "fsl.features.foreign",
    },
)
