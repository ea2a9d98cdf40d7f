"""Variational fair clustering: a fairness term added to the objectives of `clustering`, with the same optimiser.

For example, `from fairness import FairKMeans`.
"""

from clustering.foundation.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FairKMeans": "fairness.fair_kmeans",
        "FairKMedian": "fairness.fair_kmeans",
        "FairNcut": "fairness.fair_ncut",
    },
)
