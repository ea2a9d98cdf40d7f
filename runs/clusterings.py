"""Clustering as a stage: methods on data sets, each config a run of its own."""

import dataclasses
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from clustering.code import code_fingerprint
from clustering.errors import InputError
from clustering.methods import with_known
from clustering.protocol import SCORES, Selection, Trial, chooses, random_state, schedule, scores
from fsl.progress import Progress, quiet
from runs.cluster_config import ClusterConfig
from runs.clustering_jobs import ClusteringJob
from runs.clustering_results import TRIALS, Clustered, Trials
from runs.lineage import short
from runs.locks import Say, silent
from runs.overrides import write
from runs.planning import Plan
from runs.run_config import identity
from runs.selections import selection_of
from runs.stage_jobs import JobStage, plan_jobs, run_jobs
from runs.store import Store
from runs.tracking import Tracker

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset, Source
    from runs.shared_graphs import SharedGraphs

STAGE = "clustering"
AT_ONCE = 20  # trials of a method that makes several of them together


@dataclass(frozen=True)
class Job(ClusteringJob[ClusterConfig]):
    """One config, and what it stands on.

    Attributes:
        source: the built data set.
        selection: what labels choose from.
    """

    stage, verb = STAGE, "cluster"

    source: "Source"
    selection: Selection | None

    @classmethod
    def of(cls, config: ClusterConfig) -> "Job":
        """Builds data set and method, which checks their values, and looks at the files.

        Raises:
            InputError: a wrong value, or files that are not there.
        """
        config.method.build()
        source = cast("Source", config.dataset.build())
        return cls(config, source.source(), source, selection_of(config))

    @classmethod
    def on(cls, config: ClusterConfig, data: str) -> "Job":
        """The job on points of that identity, which need not be here."""
        return cls(config, data, cast("Source", config.dataset.build()), selection_of(config))

    @property
    def identity(self) -> str:
        return identity(
            STAGE, config=self.config.result_keys(), data=self.data, selection=self._chosen_from, code=self._code
        )

    @property
    def _chosen_from(self) -> list[Any] | None:
        if self.selection is None:
            return None
        return [self.selection.trials, self.selection.share, *map(dict, self.selection.settings)]

    @property
    def _code(self) -> str:
        """Fingerprint of what computes the labels, and of what makes the points."""
        kinds = (self.config.method.kind, type(self.source))
        modules = {kind.__module__ for kind in kinds}
        return code_fingerprint("clustering.protocol", "clustering.sweeps", *sorted(modules))


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

    def read(job: Job) -> "tuple[Dataset, SharedGraphs]":
        data = _read(job)
        return data, _graphs(data, store, progress)

    stage = JobStage(
        STAGE,
        "the clustering",
        lambda job, say: _finished(job, tracker, say),
        lambda job: (job.config.dataset, job.data),
        read,
        lambda job, shared: _run(job, *shared, store, tracker, progress),
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
    from runs.shared_graphs import SharedGraphs

    return SharedGraphs(data.values, store.graphs, progress)


def _run(
    job: Job, data: "Dataset", graphs: "SharedGraphs", store: Store, tracker: Tracker, progress: Progress
) -> Clustered:
    clusters = job.config.n_clusters or len(data.class_names)
    if not clusters:
        where = f"dataset {short(job.config.dataset)}"
        raise InputError(f"{where} has no classes that say how many clusters to find; add n_clusters=3, say")
    points, dimensions = data.values.shape
    shape = (points, dimensions)
    tried = "" if job.selection is None else write(tuple(map(str, map(dict, job.selection.settings))))
    with job.start(shape, clusters, tracker, selected_from=tried).guarded() as run:
        since = time.perf_counter()
        trials = _cluster(job, data, graphs, clusters, progress)
        result = Clustered(job.config, job.identity, run.run_id, False, shape, clusters, trials)
        with store.watched(), tempfile.TemporaryDirectory() as folder:
            trials.save(Path(folder) / TRIALS)
            run.artifact(Path(folder) / TRIALS)
        run.log(metrics=trials.metrics() | {"seconds": time.perf_counter() - since, "trials": len(trials.setting)})
        run.finish()
    return result


def _cluster(job: Job, data: "Dataset", graphs: "SharedGraphs", clusters: int, progress: Progress) -> Trials:
    """Every trial, with what is said of it. Warnings of single trials are not passed on: what they warn of is in the
    result."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    from clustering.sweeps import fit_trials
    from clustering.trials import TOGETHER

    device = job.config.device.partition(":")[0]
    estimator = with_known(job.config.method.build(), n_clusters=clusters, device=device)
    selection = job.selection if data.labels is not None else None
    planned = schedule(job.config.starts, selection, seeded="random_state" in estimator.get_params())
    settings = selection.settings if selection else ()
    numbered: list[dict[str, Any]] = [{}, *map(dict, settings)]
    at = [clone(estimator).set_params(**setting) for setting in numbered]
    at_once = 1
    if hasattr(estimator, "trials"):  # that works on no more at a time, and bars move more often
        at_once = max(1, min(AT_ONCE, TOGETHER // (data.values.shape[0] * clusters)))
    if hasattr(estimator, "require_memory"):
        estimator.require_memory(data.values, starts=at_once)
    rows: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []  # of the trials at the given setting
    with progress.track(job.name, len(planned)) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for graph, some in _together(planned, lambda trial: graphs.of(at[trial.setting], job.config.device), at_once):
            points = [numbered[trial.setting] | _seed(estimator, job.config.seed, trial.start) for trial in some]
            since = time.perf_counter()
            fitted = fit_trials(estimator, data.values, seeds=[0], grid=points, graph=graph)
            each = (time.perf_counter() - since) / len(some)
            for trial, model in zip(some, fitted, strict=True):
                rows.append(_facts(model, graph.seconds if graph else 0.0, each))
                said += [_said(model)] if trial.given else []
            lowered = rows[-1]["objective"]
            advance(len(some), **({} if np.isnan(lowered) else {"objective": lowered}))
    labels = np.stack([row.pop("labels") for row in rows])
    arrays: dict[str, Any] = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    trials = Trials(
        settings=tuple(numbered),
        setting=np.array([trial.setting for trial in planned]),
        start=np.array([trial.start for trial in planned]),
        seeds=np.array([random_state(job.config.seed, trial.start) for trial in planned]),
        given=np.array([trial.given for trial in planned]),
        tried=np.array([trial.tried for trial in planned]),
        labels=labels.astype(np.min_scalar_type(int(labels.max()) if labels.min() >= 0 else int(-labels.max() - 1))),
        confidence=None,
        mode_indices=None,
        mode_movements=None,
        **arrays,
        **_judged(labels, data, selection, job.config.seed),
    )
    return dataclasses.replace(trials, **said[int(trials.given[: trials.chosen].sum())])


def _facts(model: Any, graph_seconds: float, spent: float) -> dict[str, Any]:
    """What a fitted estimator says of itself. Of one that does not tell its phases apart, all that its fit took counts
    as optimising.

    Raises:
        InputError: it has no labels.
    """
    graph, *others = getattr(model, "seconds_", (0.0, np.nan, spent))
    if not hasattr(model, "labels_"):
        kind = type(model)
        raise InputError(
            f"method {kind.__module__}:{kind.__qualname__} has no labels_ after fit; give a class of your own whose "
            "fit sets them"
        )
    labels = np.asarray(model.labels_)
    objective = float(getattr(model, "objective_", getattr(model, "inertia_", np.nan)))
    return {
        "labels": labels,
        "objective": objective,
        "criterion": float(getattr(model, "criterion_", objective)),
        "clusters": len(np.unique(labels[labels >= 0])),
        "iterations": int(getattr(model, "n_iter_", None) or 0),
        "seconds": (graph + graph_seconds, *others),
    }


def _said(model: Any) -> dict[str, Any]:
    """What the chosen trial says of its points and prototypes, as far as the method does."""
    assignments = getattr(model, "assignments_", None)
    return {
        "confidence": None if assignments is None else np.asarray(assignments).max(axis=1).astype(np.float32),
        "mode_indices": getattr(model, "mode_indices_", None),
        "mode_movements": getattr(model, "mode_movements_", None),
    }


def _judged(labels: Any, data: "Dataset", selection: Selection | None, seed: int) -> dict[str, Any]:
    """How well each trial agrees with the classes, where they are known."""
    if data.labels is None:
        return {}
    true = data.labels

    def each(rows: Any) -> dict[str, Any]:
        found = [scores(trial[rows], true[rows]) for trial in labels]
        return {name: np.array([one[name] for one in found]) for name in SCORES}

    judged: dict[str, Any] = {"scores": each(slice(None))}
    if selection is not None:
        choosing = chooses(len(true), selection.share, seed)
        judged |= {"validation": each(choosing)["acc_hungarian"], "held_out": each(~choosing)}
    return judged


def _seed(estimator: Any, seed: int, start: int) -> dict[str, int]:
    """The parameter for a start, of a method that has one."""
    return {"random_state": random_state(seed, start)} if "random_state" in estimator.get_params() else {}


def _together(
    planned: Sequence[Trial], graph_of: Callable[[Trial], Any], at_once: int
) -> Iterator[tuple[Any, list[Trial]]]:
    """Trials on one graph that follow each other, so many at a time, with that graph."""
    for _, same in groupby(planned, key=lambda trial: id(graph_of(trial))):
        trials = list(same)
        for first in range(0, len(trials), at_once):
            yield graph_of(trials[0]), trials[first : first + at_once]


def _finished(job: Job, tracker: Tracker, say: Say) -> Clustered | None:
    there = job.recorded(tracker, TRIALS, Trials.load, say)
    return there and Clustered(job.config, job.identity, there.run_id, True, there.shape, there.clusters, there.found)
