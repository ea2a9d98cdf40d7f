"""The objective, its one optimiser, graphs, and the estimators on top of them: `from clustering import SLK`."""

import importlib
import os
from typing import Any

import clustering.foundation.torchvision_without_cuda  # noqa: F401 - before anything imports torchvision

# Threads of OpenMP that wait for each other sleep, unless the user says otherwise: where other programs use the cores,
# too, waiting in a loop takes the time of those that are waited for. It is read when torch is loaded.
if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

_ESTIMATORS = {
    "GaussianKModes": "clustering.kmodes",
    "KMeans": "clustering.kmeans",
    "KernelKMeans": "clustering.kernel_kmeans",
    "LaplacianKModes": "clustering.laplacian_kmodes",
    "Ncut": "clustering.ncut",
    "PublishedSLK": "clustering.slk.published",
    "SLK": "clustering.slk.estimator",
    "SeededKMeans": "clustering.seeded_kmeans",
}


def __getattr__(name: str) -> Any:
    """Estimators are imported when they are asked for: they need torch and scikit-learn, other parts do not."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ESTIMATORS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])
