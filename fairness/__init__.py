"""Variational fair clustering: a fairness term beside the terms of `clustering`, through the same optimiser.

`from fairness import FairKMeans`.
"""

import importlib
from typing import Any

import clustering  # noqa: F401 - sets how threads wait, before torch is loaded

_ESTIMATORS = {
    "FairKMeans": "fairness.fair_kmeans",
    "FairKMedian": "fairness.fair_kmedian",
    "FairNcut": "fairness.fair_ncut",
}


def __getattr__(name: str) -> Any:
    """Estimators are imported when they are asked for: they need torch and scikit-learn."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ESTIMATORS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])
