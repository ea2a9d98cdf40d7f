"""The plan of a command: its stages, which of them are in the cache, and the number of runs. Computes no result."""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from runs.cache import Store
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, RunConfig, TrainConfig, TuneConfig
from runs.config.tuning_protocol import steps_of
from runs.stages.lineage import Lineage, Lineages, Part, evaluate_name, train_name

ORDER = ("checkpoint", "import", "features", "tuning", "evaluation", "clustering", "fair")


class PlannedStage(NamedTuple):
    """One stage of a plan.

    Attributes:
        stage: one of `ORDER`; "import" is of given weights.
        name: name of the stage in messages.
        key: key of its result.
        state: "cached": will be reused; "interrupted": will be resumed.
        runs: number of MLflow runs that it will create.
    """

    stage: str
    name: str
    key: str
    state: Literal["cached", "interrupted", "to do"]
    runs: int = 0

    @property
    def is_cached(self) -> bool:
        return self.state == "cached"


def in_order(steps: Iterable[PlannedStage]) -> list[PlannedStage]:
    """Return stages in the order of execution, each once."""
    return sorted(dict.fromkeys(steps), key=lambda step: ORDER.index(step.stage))


def summary(steps: Sequence[PlannedStage]) -> str:
    """Return the numbers of stages and of new MLflow runs in words."""
    stages, cached, runs = len(steps), sum(step.is_cached for step in steps), sum(step.runs for step in steps)
    return f"{stages:,} stage{_s(stages)}, {cached:,} cached; {runs:,} new run{_s(runs)}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def plan(configs: Sequence[RunConfig], store: Store) -> list[PlannedStage]:
    """Return the plan of configs of any verb.

    Raises:
        InputError: the same errors as the stages, as far as they can be detected without computing a result.
    """
    planner = Planner(store)
    return in_order(step for config in configs for step in planner.steps(config))


class Planner:
    """Plans of many configs. Files and results that they share are examined once."""

    def __init__(self, store: Store) -> None:
        self.lineages, self.store = Lineages(), store
        self._peek = functools.cache(store.peek)

    def steps(self, config: Any) -> Sequence[PlannedStage]:
        """Return all stages that a config needs, its result last; only the last one if that is in the cache.

        Raises:
            InputError: as for `plan`.
        """
        if isinstance(config, ClusterConfig | FairConfig):
            from runs.stages.clustering.stage import stage_of

            stage = stage_of(config)
            return [self._stage(stage.kind, stage.name, stage.key, 1)]
        lineage = self.lineages.of(config)
        results = list(self._results(config, lineage))
        if results and all(step.is_cached for step in results):
            return results[-1:]
        tunes = any(step.stage == "tuning" and not step.is_cached for step in results)
        return [*([] if lineage.feature_files else self._sources(config, lineage, tunes=tunes)), *results]

    def _results(self, config: TrainConfig, lineage: Lineage) -> Iterator[PlannedStage]:
        """Yield the tuning of a config, if any, and its evaluation."""
        tuning = config.tuning_config() if isinstance(config, EvaluateConfig) and config.tuned else config
        if isinstance(tuning, TuneConfig):
            trials = [math.prod(map(len, step.grids.values())) for step in steps_of(tuning.tuning, tuning.strategy)]
            runs = 1 + sum(trials) + (trials[-1] if tuning.novel_tasks else 0)
            yield self._stage("tuning", evaluate_name(tuning), lineage.tuning(tuning), runs)
        if isinstance(config, EvaluateConfig):
            yield self._stage("evaluation", evaluate_name(config), lineage.evaluation(config), 1)

    def _sources(self, config: TrainConfig, lineage: Lineage, *, tunes: bool) -> Iterator[PlannedStage]:
        """Yield checkpoint and features."""
        name, (stage, runs) = train_name(config), ("import", 0) if config.given else ("checkpoint", 1)
        yield self._stage(stage, name, lineage.checkpoint, runs, kind="checkpoint")
        for part in _parts(config, lineage, tunes=tunes):
            other = "" if part.benchmark is lineage.benchmark else f"{part.benchmark.name} "
            yield self._stage("features", f"{name} {other}{part.split}", lineage.bank_of(part), 0)

    def _stage(self, stage: str, name: str, key: str, runs: int, kind: str = "") -> PlannedStage:
        if self._peek(kind or stage, key):
            return PlannedStage(stage, name, key, "cached")
        begun = (self.store.cache(kind or stage) / f"{key}.partial").exists()
        return PlannedStage(stage, name, key, "interrupted" if begun else "to do", runs)


def _parts(config: TrainConfig, lineage: Lineage, *, tunes: bool) -> list[Part]:
    """Return the images of the needed features: of the splits from which tasks are drawn, and of the base classes,
    whose mean CL2N subtracts; none for a training."""
    if not isinstance(config, (EvaluateConfig, TuneConfig)):
        return []
    tuned = [step.split for step in steps_of(config.tuning, config.strategy)] if config.tuning and tunes else []
    last = config.split if isinstance(config, EvaluateConfig) else "novel" if config.novel_tasks else "base"
    parts = [lineage.part(split) for split in ("base", *tuned, last)]
    if lineage.target_base and isinstance(config, EvaluateConfig) and config.base_mean == "target":
        parts.insert(1, lineage.target_base)
    return list({lineage.bank_of(part): part for part in parts}.values())
