"""The objective, its optimiser, graphs, and the estimators built on them: `from clustering import SLK`."""

import clustering.foundation.torchvision_without_cuda  # noqa: F401 - before anything imports torchvision
from clustering.foundation.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GaussianKModes": "clustering.kmodes",
        "InputError": "clustering.foundation.errors",
        "KMeans": "clustering.kmeans",
        "KernelKMeans": "clustering.graph_partitions",
        "LaplacianKModes": "clustering.laplacian_kmodes",
        "Ncut": "clustering.graph_partitions",
        "PublishedSLK": "clustering.slk.published",
        "SLK": "clustering.slk.estimator",
        "SeededKMeans": "clustering.seeded_kmeans",
    },
)
