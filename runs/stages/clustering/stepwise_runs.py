"""A method that learns features in steps, as one run of the record, with live curves."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clustering.deep.stepwise_method import StepwiseMethod
from fsl.progress import Progress, quiet
from runs.record.tracking import Tracker
from runs.stages.clustering.job import Job
from runs.stages.clustering.learned_methods import keep_method
from runs.stages.clustering.learning_run import NETWORK, LearningRun, watched_scores
from runs.stages.clustering.results import Trials
from runs.stages.clustering.trials import fit_all, known_coarse, told_points
from runs.storage.store import Store

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels
    from runs.stages.clustering.shared_graphs import SharedGraphs


def learns_in_steps(job: Job) -> bool:
    """Whether one training is asked for, of a method that has what a training needs."""
    config = job.config
    return config.starts == 1 and job.selection is None and isinstance(config.method.build(), StepwiseMethod)


def learn_in_steps(
    job: Job,
    data: "Dataset",
    known: "KnownLabels | None",
    clusters: int,
    graphs: "SharedGraphs",
    store: Store,
    tracker: Tracker,
    progress: Progress,
    *,
    force: bool,
) -> tuple[str, Trials]:
    """Fit the method of a config, or go on with a fit that was interrupted; its run, and what it came to."""
    learning, fitted = LearningRun.begun(job, data, clusters, store, tracker, progress, force=force), list[Any]()
    config, folder, labels = job.config, learning.folder, None if known is None else known.labels
    with learning.run.guarded():
        steps = config.method.build().set_params(n_clusters=clusters).planned_steps(labels)
        with store.watched(), progress.track(f"training {job.name}", steps) as advance:
            watch = {"log": learning, "observe": watched_scores(data, known), "advance": advance, "folder": folder}
            trials = fit_all(
                config, None, data, known, graphs, clusters, quiet, job.name, given=watch, take=fitted.append
            )
        (model,) = fitted
        trials = dataclasses.replace(trials, seconds=trials.seconds + np.array([0.0, 0.0, learning.before]))
        if not learning.finished:
            with store.watched():
                keep_method(folder / NETWORK, model, config.method.plugin)
        learning.keep(
            trials,
            torch.from_numpy(model.transform(data.values)).float(),
            model.labels_,
            told_points(known, known_coarse(config, data, known)),
            {"steps": model.n_iter_},
            remedy="another penalty, more labels, or bounds nearer to the sizes that you expect",
        )
    kept = store.cache("checkpoints") / job.identity / NETWORK
    progress.note(
        f"learned method: {kept} (runs.stages.clustering.learned_methods.learned_method of this file clusters other "
        "points)"
    )
    return learning.run.run_id, trials
