"""Clustering of configs: their stages, and results that are computed, found or planned."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Store
from runs.config.configs import ClusterConfig, FairConfig
from runs.stages.clustering.fitting import ClusteringStage
from runs.stages.lineage import short
from runs.stages.points import PointsStage
from runs.stages.stage import Failures, Workspace, execute
from runs.track import Tracker

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset


def stage_of(config: ClusterConfig | FairConfig) -> PointsStage:
    """Return the stage of a config. Data set and method are built, which checks values and that files exist."""
    if isinstance(config, FairConfig):
        from runs.stages.fair.stage import FairStage

        return FairStage.on(config)
    method = config.method.build()
    if config.learns:
        from runs.stages.clustering.learning import NetworkStage, check_learner

        check_learner(config, method)
    if hasattr(method, "check_objective"):
        views = config.network.options["views"] if config.learns else 0
        method.check_objective(known=config.asked_labels() is not None, views=views)
    if config.learns:
        return NetworkStage.on(config)
    stage = ClusteringStage.on(config)
    if config.starts == 1 and stage.selection is None and hasattr(method, "planned_steps"):
        from runs.stages.clustering.learning import StepwiseStage

        return StepwiseStage.on(config)
    if config.map_points is not None:
        raise InputError(
            f"map_points={config.map_points}: the map is of learned features; give a network, or method=xsdc with "
            "starts=1 selection=null, or leave map_points out"
        )
    return stage


def clustering(
    configs: Sequence[Any],
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
    failures: Failures | None = None,
) -> list[Any]:
    """Return the results of clusterings, with or without groups, each once; finished ones are taken from the cache.

    Each config has a run of its own. If a method fails, the others are run and recorded before its error is raised.

    Args:
        failures: list to which failed methods are appended, with the names of their runs; None: the first is raised.

    Raises:
        InputError: wrong values or missing files; raised before anything is clustered.
    """
    stages = list({stage.key: stage for stage in map(stage_of, configs)}.values())
    say_balanced([config for config in configs if isinstance(config, ClusterConfig)], progress)
    results, failed = execute(stages, Workspace(store, tracker, progress, force))
    if failures is not None:
        failures += failed
    elif failed:
        raise failed[0][1]
    kept = [stage for stage in stages if stage.key in results]
    return [dataclasses.replace(results[stage.key], config=stage.config) for stage in kept]


def points_of(config: ClusterConfig) -> "Dataset":
    """Read the points of a config's data set, in their order."""
    data: Dataset = stage_of(config).read()
    return data


def say_balanced(configs: Sequence[ClusterConfig], progress: Progress) -> None:
    """Report methods that assume clusters of equal size."""
    named: dict[str, dict[str, None]] = {}  # methods by the remedy in the message
    for one in configs:
        built = one.method.build()
        remedy = getattr(built, "equal_sizes_unless", "")
        told = one.asked_labels() is not None and getattr(built, "sizes_follow_labels", False)
        if remedy and not told:
            named.setdefault(remedy, {})[short(one.method)] = None
    for remedy, methods in named.items():
        progress.note(f"{', '.join(methods)}: all clusters are taken to be of the same size; where not, {remedy}")
