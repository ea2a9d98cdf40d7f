"""The missing results of many configs, as jobs for other processes. Computes no result."""

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.scheduling.jobs import Failure, Job, Kind
from runs.scheduling.planning import Plan, PlannedStage, Planner, arranged
from runs.stages.evaluations import batch_key
from runs.stages.lineage import evaluate_name, short, train_name
from runs.track import Tracker


@dataclass(frozen=True)
class Missing:
    """The jobs for a list of configs, and the configs that cannot be run.

    Attributes:
        plan: the stages that will be computed.
        finished: number of evaluations that already exist.
        features: jobs that train and extract, by the identity of the training.
        evaluations: jobs that evaluate, each with the identity of the training whose features it waits for, or "".
        blocked: reasons why some configs cannot be run, such as missing images.
    """

    plan: Plan
    finished: int
    features: Mapping[str, Job]
    evaluations: tuple[tuple[Job, str], ...]
    blocked: tuple[Failure, ...] = ()

    @property
    def jobs(self) -> list[Job]:
        """All jobs, in the order in which they can start."""
        return [*self.features.values(), *(job for job, _ in self.evaluations)]

    @property
    def count(self) -> int:
        """Number of missing evaluations."""
        return sum(job.evaluations for job, _ in self.evaluations)


@dataclass
class _Group:
    """Evaluations that are computed together, and the training whose features they wait for."""

    configs: list[EvaluateConfig] = field(default_factory=list)
    results: list[PlannedStage] = field(default_factory=list)
    sources: list[PlannedStage] = field(default_factory=list)
    needs: str = ""

    @property
    def name(self) -> str:
        first = self.configs[0]
        if len(self.configs) == 1:
            return evaluate_name(first)
        return evaluate_name(first).replace(short(first.strategy), f"{len(self.configs)} strategies on", 1)


def plan_missing(configs: Sequence[EvaluateConfig], store: Store, tracker: Tracker) -> Missing:
    """Return the work that is missing until all these configs are evaluated."""
    planner = Planner(store, tracker)
    groups: dict[tuple[Any, ...], _Group] = {}
    blocked: dict[str, list[str]] = {}
    finished = 0
    for config in configs:
        try:
            steps, lineage = planner.steps(config), planner.lineages.of(config)
        except InputError as error:
            blocked.setdefault(str(error), []).append(evaluate_name(config))
            continue
        if steps[-1].is_cached:
            finished += 1
            continue
        # A tuning takes longer than the time that joint evaluation saves.
        tuning = [step.identity for step in steps if step.stage == "tuning" and not step.is_cached]
        group = groups.setdefault((*batch_key(config, lineage), *tuning), _Group())
        group.configs.append(config)
        for step in steps:
            (group.results if step.stage in ("tuning", "evaluation") else group.sources).append(step)
        if any(not step.is_cached for step in group.sources):
            group.needs = lineage.checkpoint
    token = f".token-{uuid.uuid4().hex}"
    shared = {
        "results": str(store.root),
        "uri": None if tracker.own else tracker.uri,
        "folder": os.getcwd(),
        "token": token,
    }
    features = {}
    for needs in dict.fromkeys(group.needs for group in groups.values() if group.needs):
        waiting = [group for group in groups.values() if group.needs == needs]
        one_each = [group.configs[0] for group in waiting]
        count = sum(len(group.configs) for group in waiting)
        steps = [step for group in waiting for step in group.sources]
        trains = any(step.stage == "checkpoint" and not step.is_cached for step in steps)
        name = f"{'training and ' if trains else ''}features of {train_name(one_each[0])}"
        features[needs] = _job("features", name, one_each, steps, count, shared)
    return Missing(
        arranged([step for group in groups.values() for step in (*group.sources, *group.results)]),
        finished,
        features,
        tuple(
            (_job("evaluation", group.name, group.configs, group.results, len(group.configs), shared), group.needs)
            for group in groups.values()
        ),
        tuple(Failure(names[0], reason, 2, len(names)) for reason, names in blocked.items()),
    )


def _job(
    kind: Kind,
    name: str,
    configs: Sequence[EvaluateConfig],
    steps: Sequence[PlannedStage],
    evaluations: int,
    shared: Mapping[str, Any],
) -> Job:
    seconds = arranged(steps).seconds
    arguments = tuple(tuple(config.arguments()) for config in configs)
    return Job(kind, name, arguments, evaluations, seconds=seconds, **shared)
