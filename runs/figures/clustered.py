"""What the figures of clustering share: names of methods and data sets, and the clustering that is drawn."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, FairConfig
from runs.config.overrides import write
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short

TITLES = {  # names of the methods in the papers
    "kmeans": "K-means",
    "kmodes": "K-modes",
    "ncut": "Normalised cut",
    "kernel_kmeans": "Kernel K-means",
    "lk": "LK",
    "slk_mean_shift": "SLK-MS",
    "slk_byproduct": "SLK-BO",
    "slk_means": "SLK-Means",
    "entropy": "Entropy clustering",
    "entropy_margins": "Entropy clustering",
}


def chosen_labels(result: Clustered) -> NDArray[np.integer[Any]]:
    """(N,) clusters of the clustering chosen without labels."""
    return np.asarray(result.trials.labels[result.trials.chosen], dtype=np.int64)


def of_one_dataset(configs: Sequence[ClusterConfig]) -> None:
    """Check that all clusterings are of the same points.

    Raises:
        InputError: they are not.
    """
    names = list(dict.fromkeys(short(config.dataset) for config in configs))
    if any(config.dataset != configs[0].dataset for config in configs):
        raise InputError(f"the figure is of one data set, not of {', '.join(names)}; give one")


def method_titles(configs: Sequence[ClusterConfig | FairConfig], leave_out: Sequence[str] = ()) -> list[str]:
    """Titles of clusterings: the method, and the parameters that differ between clusterings of one method."""
    names = [_title(short(config.method)) for config in configs]
    titles = []
    for name, config in zip(names, configs, strict=True):
        namesakes = [other.method.options for other, title in zip(configs, names, strict=True) if title == name]
        parts = [name]
        for field, value in config.method.options.items():
            if field in leave_out or all(options.get(field) == value for options in namesakes):
                continue
            if field != "weight_path":
                parts.append(f"{field}={write(value)}")
            elif value is not None:
                parts.append("path of weights")
        titles.append(", ".join(parts))
    return titles


def datasets(configs: Iterable[ClusterConfig]) -> str:
    """The names of their data sets."""
    return ", ".join(dict.fromkeys(short(config.dataset) for config in configs))


def _title(name: str) -> str:
    base = name.removesuffix("_as_published")
    return TITLES.get(base, base) + (" as published" if base != name else "")
