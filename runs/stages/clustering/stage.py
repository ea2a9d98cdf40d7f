"""Clustering of configs: their stages, and results that are computed, found or planned."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Store
from runs.config.cluster import ClusterConfig
from runs.stages.clustering.fitting import ClusteringStage
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short
from runs.stages.points import finished
from runs.stages.stage import Workspace
from runs.track import Tracker

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset


def stage_of(config: ClusterConfig) -> ClusteringStage:
    """Return the stage of a config. Data set and method are built, which checks values and that files exist."""
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
    configs: Sequence[ClusterConfig], store: Store, tracker: Tracker, *, progress: Progress = quiet, force: bool = False
) -> list[Clustered]:
    """Return the trials of each config, in order; finished ones are taken from the cache.

    Each config has a run of its own. If a method fails, the others are run and recorded before its error is raised.

    Raises:
        InputError: wrong values or missing files; raised before anything is clustered.
    """
    stages = [stage_of(config) for config in configs]
    say_balanced(configs, progress)
    results, failures = finished(stages, Workspace(store, tracker, progress, force))
    if failures:
        raise failures[0][1]
    return results


def points_of(config: ClusterConfig) -> "Dataset":
    """Read the points of a config's data set, in their order."""
    return stage_of(config).read()


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
