"""The objective, its one optimiser, graphs, and the estimators on top of them: `from clustering import SLK`."""

import os

import clustering.foundation.torchvision_without_cuda  # noqa: F401 - before anything imports torchvision
from clustering.foundation.lazy import lazy_names

# Threads of OpenMP that wait for each other sleep, unless the user says otherwise: where other programs use the cores,
# too, waiting in a loop takes the time of those that are waited for. It is read when torch is loaded.
if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GaussianKModes": "clustering.kmodes",
        "InputError": "clustering.foundation.errors",
        "KMeans": "clustering.kmeans",
        "KernelKMeans": "clustering.kernel_kmeans",
        "LaplacianKModes": "clustering.laplacian_kmodes",
        "Ncut": "clustering.ncut",
        "PublishedSLK": "clustering.slk.published",
        "SLK": "clustering.slk.estimator",
        "SeededKMeans": "clustering.seeded_kmeans",
    },
)
