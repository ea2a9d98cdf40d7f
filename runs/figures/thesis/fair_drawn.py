"""Titles in the figures of fair clustering, chapter 3 of the thesis."""

from collections.abc import Iterable, Mapping

from runs.config.configs import FairConfig
from runs.figures.drawing import either
from runs.stages.fair.results import FairResult
from runs.stages.lineage import short

TITLES: Mapping[str, str] = {
    "fair_kmeans": "Fair K-means",
    "fair_kmedian": "Fair K-median",
    "fair_ncut": "Fair Ncut",
    "synthetic": "Synthetic",
    "synthetic_unequal": "Synthetic-unequal",
    "adult_thesis": "Adult",
    "bank_thesis": "Bank",
}
"""Names of the methods and data sets in the thesis."""


def method_title(config: FairConfig) -> str:
    """The name of a method in the thesis."""
    name = short(config.method)
    return TITLES.get(name, name)


def data_title(config: FairConfig) -> str:
    """The name of a data set in the thesis."""
    name = short(config.dataset)
    return TITLES.get(name, name)


def of_paths(results: Iterable[FairResult]) -> str:
    """Data sets, K and seeds of results, for a caption."""
    results = list(results)
    seeds = either(result.config.seed for result in results)
    sizes = dict.fromkeys(f"{data_title(result.config)} K = {result.n_clusters}" for result in results)
    return f"{', '.join(sizes)}; seed {seeds}"
