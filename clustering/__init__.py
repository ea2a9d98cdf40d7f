"""The objective, its one optimiser, graphs, and the estimators on top of them: `from clustering import SLK`."""

import importlib
from typing import Any

import clustering.torchvision_without_cuda  # noqa: F401 - before anything imports torchvision

_ESTIMATORS = {
    "GaussianKModes": "clustering.kmodes",
    "KMeans": "clustering.kmeans",
    "KernelKMeans": "clustering.kernel_kmeans",
    "LaplacianKModes": "clustering.laplacian_kmodes",
    "Ncut": "clustering.ncut",
    "SLK": "clustering.slk",
    "SeededKMeans": "clustering.seeded_kmeans",
}


def __getattr__(name: str) -> Any:
    """Estimators are imported when they are asked for: they need torch and scikit-learn, other parts do not."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ESTIMATORS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])
