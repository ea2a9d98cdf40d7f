"""Fill cells with tracked clusterings of the same config, points, selection and code, for any seed."""

import math
import sys
from collections.abc import Callable, Sequence

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, FairConfig
from runs.record.query import RunRow
from runs.stages.small_cases.outcomes import recipe_of, why_stale
from runs.tables.table import SeedResult

STAGES = {"clustering": "cluster/", "fair": "fair/"}
"""Stages of clusterings, with the prefixes of their experiments."""


class Clusterings:
    """Finished clusterings of the record, fair ones included. Add the newest first.

    Args:
        small_cases: whether small cases decide on runs of other code; if not, these runs are left out.
    """

    def __init__(self, *, small_cases: bool = False) -> None:
        self._small_cases = small_cases
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
        points: dict[bool, str] = {}  # of the newest run that counts, and of the newest one that is stale
        left_out: list[str] = []
        stage = "fair" if isinstance(config, FairConfig) else "clustering"
        text, keys = config.to_yaml(), _result_keys(config)
        for run in self._by_dataset.get((stage, config.dataset.name), []):
            seed, data = run.params.get("seed", ""), run.tags.get("data", "")
            if not is_seed(seed) or (seeds and seed not in seeds):
                continue
            same_code = run.tags.get("recipe") == self._recipe(config, text, run)
            if not same_code:  # a run with this config, by any version of the code?
                if any(run.params.get(name) != value for name, value in keys.items()):
                    continue
                if not self._small_cases:
                    left_out.append(run.run_id)
                    continue
            stale = "" if same_code else why_stale(config, run)
            newest = points.setdefault(bool(stale), data)
            if int(seed) in chosen and (stale or not chosen[int(seed)].stale):
                continue
            value, printed = values(run)
            if not abs(value) < sys.float_info.max:
                continue
            if data != newest:
                notes.append(f"{where}: run {run.run_id} left out, on other points than the newest run")
                continue
            chosen[int(seed)] = SeedResult(
                int(seed), value, math.nan, 0, run.run_id, run.artifact_uri, as_printed=printed, stale=stale
            )
        if left_out and not chosen:
            why = "the code or the selection has changed since; cluster again"
            notes.append(f"{where}: run {left_out[0]} left out, {why}")
        return tuple(chosen[seed] for seed in sorted(chosen))

    def _recipe(self, config: ClusterConfig | FairConfig, text: str, run: RunRow) -> str:
        """Recipe of the runs of a config on the points of a run; "?", which no run has, if it cannot be built here.

        Args:
            text: the config as YAML.
        """
        key = (text, run.tags.get("data", ""))
        if key not in self._recipes:
            try:
                self._recipes[key] = recipe_of(config, run)
            except InputError:
                self._recipes[key] = "?"
        return self._recipes[key]


def _result_keys(config: ClusterConfig | FairConfig) -> dict[str, str]:
    """Keys of a config that can change the result, without the seed, as the parameters of its runs."""
    counting = config.result_keys()
    return {name: str(value) for name, value in config.flat().items() if name in counting and name != "seed"}


def is_seed(text: str) -> bool:
    """Whether a parameter of a run is a seed. It may come from a stranger: Python refuses numbers of many digits."""
    return text.isdecimal() and len(text) < 20
