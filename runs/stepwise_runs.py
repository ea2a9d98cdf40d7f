"""A method that learns features in steps, as one run of the record: live curves, taken up again where it was
interrupted, its weights and features kept."""

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from sklearn.utils.validation import has_fit_parameter

from fsl.progress import Progress, quiet
from fsl.tensor_files import write_tensors
from runs.clustering_results import TRIALS, Trials
from runs.clustering_trials import fit_all
from runs.network_runs import BANK, FORCED, NETWORK, NOTE, keep_bank, run_of, watched_scores
from runs.store import Store
from runs.tracking import Tracker

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.known_labels import KnownLabels
    from runs.clusterings import Job
    from runs.shared_graphs import SharedGraphs

FORMAT = "transduce representation 1"


def learns_in_steps(job: "Job") -> bool:
    """Whether one training is asked for, of a method whose `fit` tells how it goes on."""
    config = job.config
    return config.starts == 1 and job.selection is None and has_fit_parameter(config.method.build(), "advance")


def learn_in_steps(
    job: "Job",
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
    """Fit the method of a config, or go on with a fit that was interrupted; its run, and what it came to.

    Weights are in the store's checkpoints, what they make of the points in its features, by the identity of the run.
    """
    config, key = job.config, job.identity
    forced = store.cache("checkpoints") / f"{key}.partial" / FORCED
    if force and not forced.exists():
        store.partial("checkpoints", key, fresh=True)
        forced.touch()
    finished = None if forced.exists() else store.find("checkpoints", key, progress.note)
    folder = store.partial("checkpoints", key) if finished is None else finished.path
    run = run_of(job, folder / NOTE, (data.values.shape[0], data.values.shape[1]), clusters, tracker)
    since, fitted = time.perf_counter(), list[Any]()
    labels = None if known is None else known.labels
    with run.guarded():
        steps = config.method.build().set_params(n_clusters=clusters).planned_steps(labels)
        with store.watched(), progress.track(f"training {job.name}", steps) as advance:
            watch = {"log": run, "observe": watched_scores(data, known), "advance": advance, "folder": folder}
            trials = fit_all(
                config, None, data, known, graphs, clusters, quiet, job.name, given=watch, take=fitted.append
            )
        (model,) = fitted
        if finished is None:
            with store.watched():
                write_tensors(folder / NETWORK, model.weights(), {"format": FORMAT, "method": config.method.name})
        features = torch.from_numpy(model.transform(data.values)).float()
        keep_bank(job, features, model.labels_, clusters, data, store, progress)
        with store.watched(), tempfile.TemporaryDirectory() as kept:
            trials.save(Path(kept) / TRIALS)
            run.artifact(Path(kept) / TRIALS)
        sizes = model.cluster_sizes_
        bank = store.cache("features") / key / BANK
        run.log(
            metrics=trials.metrics()
            | {"seconds": time.perf_counter() - since, "trials": 1, "empty_clusters": int((sizes == 0).sum())},
            tags={"features": str(bank), "sizes": " ".join(map(str, sizes))},
        )
        if finished is None:
            store.publish("checkpoints", key, [NETWORK], {"run": run.run_id, "steps": model.n_iter_})
        run.finish()
    for rest in ("last.ckpt", FORCED):
        (store.cache("checkpoints") / key / rest).unlink(missing_ok=True)
    if (sizes == 0).any():
        progress.note(
            f"{job.name}: {(sizes == 0).sum()} of {clusters} clusters have no points; another penalty, more labels, or "
            "bounds nearer to the sizes that you expect may mend it"
        )
    progress.note(f"learned features: {bank} (transduce cluster dataset=features path={bank} method=kmeans)")
    return run.run_id, trials
