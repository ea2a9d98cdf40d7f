"""Fair clusterings in the record: what the figures of chapter 3 of the thesis are drawn from."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from runs.config.configs import FairConfig
from runs.stages.fair.results import FairResult
from runs.stages.fair.stage import recorded_fair
from runs.stages.lineage import short
from runs.storage.locks import Say

if TYPE_CHECKING:
    from runs.record.tracking import Tracker

TITLES: Mapping[str, str] = {
    "fair_kmeans": "Fair K-means",
    "fair_kmedian": "Fair K-median",
    "fair_ncut": "Fair Ncut",
    "synthetic": "Synthetic",
    "synthetic_unequal": "Synthetic-unequal",
    "adult_thesis": "Adult",
    "bank_thesis": "Bank",
}
"""What the thesis calls methods and data sets."""


def drawn(config: FairConfig, tracker: "Tracker", say: Say) -> FairResult | None:
    """What the record has of a config; None where it is not whole."""
    return recorded_fair(config, tracker, say)


def run_ids(result: FairResult) -> list[str]:
    """Of the run that it is from."""
    return [result.run_id]


def method_title(config: FairConfig) -> str:
    """What a method is called."""
    name = short(config.method)
    return TITLES.get(name, name)


def data_title(config: FairConfig) -> str:
    """What a data set is called."""
    name = short(config.dataset)
    return TITLES.get(name, name)


def of_paths(results: Iterable[FairResult]) -> str:
    """K and the seed of several results, in words."""
    results = list(results)
    seeds = " or ".join(str(seed) for seed in sorted({result.config.seed for result in results}))
    sizes = dict.fromkeys(f"{data_title(result.config)} K = {result.n_clusters}" for result in results)
    return f"{', '.join(sizes)}; seed {seeds}"
