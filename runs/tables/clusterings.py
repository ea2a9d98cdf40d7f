"""Fill cells with tracked clusterings of the same config, points, selection and code, for any seed."""

import math
import sys
from collections.abc import Callable, Sequence

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, FairConfig
from runs.record.query import RunRow
from runs.tables.table import SeedResult

STAGES = {"clustering": "cluster/", "fair": "fair/"}
"""Stages of clusterings, with the prefixes of their experiments."""


class Clusterings:
    """Finished clusterings of the record, fair ones included. Add the newest first."""

    def __init__(self) -> None:
        self._by_dataset: dict[tuple[str, str], list[RunRow]] = {}
        self._recipes: dict[tuple[str, str], str] = {}

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
        points = ""
        stale: list[str] = []
        stage = "fair" if isinstance(config, FairConfig) else "clustering"
        for run in self._by_dataset.get((stage, config.dataset.name), []):
            seed, data = run.params.get("seed", ""), run.tags.get("data", "")
            if not seed.isdecimal() or (seeds and seed not in seeds):
                continue
            if run.tags.get("recipe") != self._recipe(config, data):
                stale += [run.run_id] if _same_keys(config, run) else []
                continue
            points = points or data
            if int(seed) in chosen:
                continue
            value, printed = values(run)
            if not abs(value) < sys.float_info.max:
                continue
            if data != points:
                notes.append(f"{where}: run {run.run_id} left out, on other points than the newest run")
                continue
            result = SeedResult(int(seed), value, math.nan, 0, run.run_id, run.artifact_uri, as_printed=printed)
            chosen[result.seed] = result
        if stale and not chosen:
            why = "the code or the selection has changed since; cluster again"
            notes.append(f"{where}: run {stale[0]} left out, {why}")
        return tuple(chosen[seed] for seed in sorted(chosen))

    def _recipe(self, config: ClusterConfig | FairConfig, data: str) -> str:
        """Recipe of the runs of a config on these points; "?", which no run has, if it cannot be built here."""
        from runs.stages.clustering.fitting import ClusteringStage
        from runs.stages.fair.stage import FairStage

        key = (config.to_yaml(), data)
        if key not in self._recipes:
            try:
                if isinstance(config, FairConfig):
                    self._recipes[key] = FairStage.on(config, data).recipe
                else:
                    self._recipes[key] = ClusteringStage.on(config, data).recipe
            except InputError:
                self._recipes[key] = "?"
        return self._recipes[key]


def _same_keys(config: ClusterConfig | FairConfig, run: RunRow) -> bool:
    """Whether a run has this config, with any version of the code."""
    counting = config.result_keys()
    keys = {name: str(value) for name, value in config.flat().items() if name in counting and name != "seed"}
    return all(run.params.get(name) == text for name, text in keys.items())
