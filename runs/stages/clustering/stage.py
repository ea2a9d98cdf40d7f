"""Clustering as a stage: methods on data sets, each config a run of its own."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fsl.progress import Progress, quiet
from runs.config.cluster import ClusterConfig
from runs.record.tracking import Tracker
from runs.scheduling.planning import Plan
from runs.stages.clustering.fitting import ClusteringStage
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short
from runs.stages.stage import Workspace, execute, plan_of
from runs.storage.locks import Say, silent
from runs.storage.store import Store

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset


def stage_of(config: ClusterConfig) -> ClusteringStage:
    """The stage of a config: builds data set and method, which checks their values, and looks at the files.

    Raises:
        InputError: a wrong value, or files that are not there.
    """
    from clustering.deep.stepwise_method import StepwiseMethod

    method = config.method.build()
    if config.learns:
        from runs.stages.clustering.network_runs import NetworkStage, check_learner

        check_learner(config, method)
    if hasattr(method, "network_objective"):
        from clustering.deep.softmax_clustering import check_objective

        views = config.network.options["views"] if config.learns else 0
        check_objective(getattr(method, "objective", ""), known=config.asked_labels() is not None, views=views)
    if config.learns:
        return NetworkStage.on(config)
    stage = ClusteringStage.on(config)
    if config.starts == 1 and stage.selection is None and isinstance(method, StepwiseMethod):
        from runs.stages.clustering.stepwise_runs import StepwiseStage

        return StepwiseStage.on(config)
    return stage


def clustering(
    configs: Sequence[ClusterConfig],
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
) -> list[Clustered]:
    """The trials of each config, in order; finished ones are taken from the record.

    Each config is a run of its own. Where a method fails, the others are run and recorded before its error is raised.

    Args:
        force: cluster again, even what is in the record.

    Raises:
        InputError: before anything is clustered, wrong values and missing files.
    """
    stages = [stage_of(config) for config in configs]
    say_balanced(configs, progress)
    results, failures = execute(stages, Workspace(store, tracker, progress, force))
    if failures:
        raise failures[0][1]
    return [dataclasses.replace(results[stage.identity], config=stage.config) for stage in stages]


def recorded_clustering(config: ClusterConfig, tracker: Tracker, say: Say = silent) -> Clustered | None:
    """The clustering of a config as the record has it; None where it is missing or not whole.

    Args:
        say: told of a run that is no longer whole.
    """
    return stage_of(config).recorded(tracker, say)


def points_of(config: ClusterConfig) -> "Dataset":
    """The points of a config's data set, in their order."""
    return stage_of(config).read()


def plan(configs: Sequence[ClusterConfig], store: Store, tracker: Tracker) -> Plan:
    """What these configs would do.

    Raises:
        InputError: as `clustering`, as far as it can be known without reading a point.
    """
    return plan_of([stage_of(config) for config in configs], tracker)


def say_balanced(configs: Sequence[ClusterConfig], progress: Progress) -> None:
    """That a method takes all clusters to be alike in size is nothing to be silent about."""
    named: dict[str, dict[str, None]] = {}  # methods by what to give
    for one in configs:
        built = one.method.build()
        remedy = getattr(built, "equal_sizes_unless", "")
        told = one.asked_labels() is not None and getattr(built, "sizes_follow_labels", False)
        if remedy and not told:
            named.setdefault(remedy, {})[short(one.method)] = None
    for remedy, methods in named.items():
        progress.note(f"{', '.join(methods)}: all clusters are taken to be of the same size; where not, {remedy}")
