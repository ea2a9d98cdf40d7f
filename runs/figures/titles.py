"""Names of methods and data sets in figures and captions."""

from collections.abc import Iterable, Sequence

from runs.config.configs import ClusterConfig, FairConfig
from runs.config.overrides import write
from runs.stages.lineage import short

TITLES = {  # names in the papers
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
    "fair_kmeans": "Fair K-means",
    "fair_kmedian": "Fair K-median",
    "fair_ncut": "Fair Ncut",
    "synthetic": "Synthetic",
    "synthetic_unequal": "Synthetic-unequal",
    "adult_thesis": "Adult",
    "bank_thesis": "Bank",
}


def title(name: str) -> str:
    """The name of a method or data set in the papers, or else its own."""
    base = name.removesuffix("_as_published")
    return TITLES.get(base, base) + (" as published" if base != name else "")


def method_titles(configs: Sequence[ClusterConfig | FairConfig], leave_out: Sequence[str] = ()) -> list[str]:
    """Titles of clusterings: the method, and the parameters that differ between clusterings of one method."""
    names = [title(short(config.method)) for config in configs]
    titles = []
    for name, config in zip(names, configs, strict=True):
        namesakes = [other.method.options for other, its in zip(configs, names, strict=True) if its == name]
        parts = [name]
        for field, value in config.method.options.items():
            if field in leave_out or all(options.get(field) == value for options in namesakes):
                continue
            parts.append(f"{field}={write(value)}")
        titles.append(", ".join(parts))
    return titles


def datasets(configs: Iterable[ClusterConfig]) -> str:
    """The names of their data sets."""
    return ", ".join(dict.fromkeys(short(config.dataset) for config in configs))


def either(numbers: Iterable[int]) -> str:
    """Numbers for a caption: "5", or "3 or 5"."""
    return " or ".join(map(str, sorted(set(numbers)))) or "no"
