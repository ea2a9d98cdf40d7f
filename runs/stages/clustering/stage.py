"""Clustering as a stage: methods on data sets, each config a run of its own."""

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from fsl.progress import Progress, quiet
from runs.config.cluster import ClusterConfig
from runs.config.overrides import write
from runs.record.tracking import Tracker
from runs.record.unrecorded import Unrecorded
from runs.scheduling.planning import Plan
from runs.stages.clustering.job import STAGE, Job
from runs.stages.clustering.results import TRIALS, Clustered, Trials
from runs.stages.clustering.trials import fit_all, known_to_method
from runs.stages.lineage import short
from runs.stages.stage_jobs import JobStage, plan_jobs, run_jobs
from runs.storage.locks import Say, silent
from runs.storage.store import Store

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels
    from runs.stages.clustering.shared_graphs import SharedGraphs

LOST = "another seed, more starts, fewer clusters, or other parameters of the method"
BALANCED = "balanced"  # a prior that takes all clusters to be alike


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
    jobs = [Job.of(config) for config in configs]
    say_balanced(configs, progress)

    def read(job: Job) -> "tuple[Dataset, SharedGraphs]":
        if getattr(job.source, "root", None):  # of files, which may take a while
            progress.note(f"reading {short(job.config.dataset)}")
        data = _read(job)
        return data, _graphs(data, store, progress)

    stage = JobStage(
        STAGE,
        "the clustering",
        lambda job, say: _finished(job, tracker, say),
        lambda job: (job.config.dataset, job.data),
        read,
        lambda job, shared: _run(job, *shared, store, tracker, progress, force),
    )
    found, failed = run_jobs(jobs, stage, store, tracker, progress, force=force)
    if failed:
        raise failed[0]
    return [dataclasses.replace(found[job.identity], config=job.config) for job in jobs]


def recorded_clustering(config: ClusterConfig, tracker: Tracker, say: Say = silent) -> Clustered | None:
    """The clustering of a config as the record has it; None where it is missing or not whole.

    Args:
        say: told of a run that is no longer whole.
    """
    return _finished(Job.of(config), tracker, say)


def points_of(config: ClusterConfig) -> "Dataset":
    """The points of a config's data set, in their order."""
    return _read(Job.of(config))


def plan(configs: Sequence[ClusterConfig], store: Store, tracker: Tracker) -> Plan:
    """What these configs would do.

    Raises:
        InputError: as `clustering`, as far as it can be known without reading a point.
    """
    return plan_jobs([Job.of(config) for config in configs], STAGE, tracker)


def _read(job: Job) -> "Dataset":
    from clustering.datasets.dataset import check

    return check(short(job.config.dataset), job.source.read())


def _graphs(data: "Dataset", store: Store, progress: Progress) -> "SharedGraphs":
    from runs.stages.clustering.shared_graphs import SharedGraphs

    return SharedGraphs(data.values, store.graphs, progress)


def _run(
    job: Job,
    data: "Dataset",
    graphs: "SharedGraphs",
    store: Store,
    tracker: Tracker,
    progress: Progress,
    force: bool,
) -> Clustered:
    known = known_to_method(job.config, data)
    clusters = _clusters(job.config, data, known)
    _check(job.config, clusters)
    points, dimensions = data.values.shape
    shape = (points, dimensions)
    if known is not None and data.labels is not None and not known.names_all:
        progress.note(
            f"{job.name}: labels are known of {known.classes} of {len(known.class_names)} classes, and clusters of the "
            "others have no name: there is no accuracy by name, but that of the best match (ACC)"
        )
    if data.told is not None and data.labels is not None:
        progress.note(
            f"{job.name}: {int(data.told.sum()):,} points whose class the features were learned with are not judged"
        )
    if job.config.learns:
        from runs.stages.clustering.network_runs import learn

        run_id, trials = learn(job, data, known, clusters, store, tracker, progress, force=force)
        return Clustered(job.config, job.identity, run_id, False, shape, clusters, trials)
    from runs.stages.clustering.stepwise_runs import learn_in_steps, learns_in_steps

    if learns_in_steps(job):
        run_id, trials = learn_in_steps(job, data, known, clusters, graphs, store, tracker, progress, force=force)
        return Clustered(job.config, job.identity, run_id, False, shape, clusters, trials)
    tried = "" if job.selection is None else write(tuple(map(str, map(dict, job.selection.settings))))
    unrecorded = Unrecorded(store, STAGE, job.identity)
    kept = unrecorded.find(TRIALS, Trials.load, tracker, force=force)
    with job.start(shape, clusters, tracker, selected_from=tried).guarded() as run:
        since = time.perf_counter()
        if kept is None:
            trials = fit_all(job.config, job.selection, data, known, graphs, clusters, progress, job.name)
            seconds = time.perf_counter() - since
        else:
            progress.note(f"{job.name} was clustered before and not recorded: recording it")
            trials, seconds, force = kept.result, float(kept.facts["seconds"]), bool(kept.facts["forced"])
        result = Clustered(job.config, job.identity, run.run_id, False, shape, clusters, trials)
        run.artifact(unrecorded.keep(TRIALS, trials.save, run.run_id, seconds=seconds, forced=force))
        run.log(metrics=trials.metrics() | {"seconds": seconds, "trials": len(trials.setting)})
        run.finish()
    unrecorded.drop()
    lost = clusters - int(trials.clusters[trials.chosen])
    if lost > 0 and "n_clusters" in job.config.method.build().get_params():
        progress.note(f"{job.name}: {lost} of {clusters} clusters have no points; {LOST} may mend it")
    return result


def _clusters(config: ClusterConfig, data: "Dataset", known: "KnownLabels | None") -> int:
    """How many to find."""
    names = data.class_names if known is None else known.class_names
    clusters = config.n_clusters or len(names)
    if not clusters:
        where = f"dataset {short(config.dataset)}"
        raise InputError(f"{where} has no classes that say how many clusters to find; add n_clusters=3, say")
    if known is not None and known.labels.max() >= clusters:
        raise InputError(
            f"n_clusters={clusters}: labels are known of {len(names)} classes, as {names[int(known.labels.max())]!r}; "
            f"set n_clusters to {len(names)} or more"
        )
    return clusters


def _check(config: ClusterConfig, clusters: int) -> None:
    """What is known to be wrong before there is a run.

    Raises:
        InputError: a prior of other clusters; labels or pairs for a method that takes none.
    """
    from clustering.sweeps import check_takes

    method = config.method.build()
    if config.asked_labels() is not None:
        check_takes(method, "partial_labels")
    if config.links is not None:
        check_takes(method, "must_link")
    if hasattr(method, "network_objective"):
        from clustering.deep.training import checked_prior

        checked_prior(getattr(method, "prior", BALANCED), clusters)
    if hasattr(method, "check_prior"):
        method.check_prior()


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


def _finished(job: Job, tracker: Tracker, say: Say) -> Clustered | None:
    there = job.recorded(tracker, TRIALS, Trials.load, say)
    return there and Clustered(job.config, job.identity, there.run_id, True, there.shape, there.clusters, there.found)
