"""The objective, its optimiser, graphs, and the estimators built on them: `from clustering import SLK`."""

import os

import clustering.foundation.torchvision_without_cuda  # noqa: F401 - before anything imports torchvision
from clustering.foundation.lazy import lazy_names

# Let waiting OpenMP threads sleep, unless the user sets another policy: with other programs on the cores, busy waiting
# delays the threads that are waited for. The variable is read when torch is loaded.
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
