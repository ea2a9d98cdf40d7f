"""Fill cells with tracked clusterings of the same config, points, selection and revisions, for any seed."""

import math
import sys
from collections.abc import Callable, Sequence

from runs.cache import raised
from runs.config.configs import ClusterConfig, FairConfig
from runs.record.query import RunRow
from runs.stages.lineage import revisions_of
from runs.tables.table import Config, SeedResult

STAGES = {"clustering": "cluster/", "fair": "fair/"}
"""Stages of clusterings, with the prefixes of their experiments."""


class Clusterings:
    """Finished clusterings of the record, fair ones included. Add the newest first."""

    def __init__(self) -> None:
        self._by_dataset: dict[tuple[str, str], list[RunRow]] = {}

    def add(self, run: RunRow) -> None:
        """Add a run that is older than those before."""
        self._by_dataset.setdefault((run.tags.get("stage", ""), run.tags.get("dataset", "")), []).append(run)

    def results(
        self,
        config: ClusterConfig | FairConfig,
        values: Callable[[RunRow], tuple[float, float]],
        seeds: Sequence[str],
        where: str,
        notes: list[str],
    ) -> tuple[SeedResult, ...]:
        """One result for each seed, from its newest run.

        Args:
            values: gives the metric of the cell and the metric that the paper printed, from a run.
            seeds: seeds asked for; empty for all.
            where: the cell, in words.
            notes: list to which the runs left out are added, with the reason.
        """
        chosen: dict[int, SeedResult] = {}
        newest = ""  # fingerprint of the points of the newest run
        left_out: list[str] = []
        stage, keys = "fair" if isinstance(config, FairConfig) else "clustering", clustering_keys(config)
        wanted: tuple[str, str] | None = None
        for run in self._by_dataset.get((stage, config.dataset.name), []):
            seed, data = run.params.get("seed", ""), run.tags.get("data", "")
            if not is_seed(seed) or (seeds and seed not in seeds) or int(seed) in chosen:
                continue
            if any(run.params.get(name) != value for name, value in keys.items()):
                continue
            wanted = wanted or (raised(revisions_of(config)), selected_from(config))
            if (run.tags.get("revisions", ""), run.tags.get("selected_from", "")) != wanted:
                left_out.append(run.run_id)
                continue
            newest = newest or data
            value, printed = values(run)
            if not abs(value) < sys.float_info.max:
                continue
            if data != newest:
                notes.append(f"{where}: run {run.run_id} left out, on other points than the newest run")
                continue
            chosen[int(seed)] = SeedResult(
                int(seed), value, math.nan, 0, run.run_id, run.artifact_uri, as_printed=printed
            )
        if left_out and not chosen:
            why = "the code or the selection has changed since; cluster again"
            notes.append(f"{where}: run {left_out[0]} left out, {why}")
        return tuple(chosen[seed] for seed in sorted(chosen))


def selected_from(config: Config) -> str:
    """The settings from which labels select, as in the tag `selected_from` of its runs."""
    from runs.stages.clustering.fitting import selection_for, tried

    return tried(selection_for(config)) if isinstance(config, ClusterConfig) else ""


def clustering_keys(config: ClusterConfig | FairConfig) -> dict[str, str]:
    """Keys of a config that can change the result, without the seed, as the parameters of its runs."""
    counting = config.result_keys()
    if isinstance(config, FairConfig) and not hasattr(config.method.kind, "path"):
        counting.pop("fairness_weight", None)  # the method has no weight
    return {name: str(value) for name, value in config.flat().items() if name in counting and name != "seed"}


def is_seed(text: str) -> bool:
    """Whether a parameter of a run is a seed. It may come from a stranger: Python refuses numbers of many digits."""
    return text.isdecimal() and len(text) < 20
