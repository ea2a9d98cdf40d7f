"""Clustering with a network that learns its features, as one run of the record: trained with live curves, taken up
again where it was interrupted, its weights and features kept."""

import contextlib
import dataclasses
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.deep import losses
from clustering.deep.networks import Classifier
from clustering.deep.softmax_clustering import check_labels
from clustering.deep.training import Augment, Prepare, checked_prior, features, predictions, train
from clustering.errors import InputError
from clustering.protocol import random_state
from fsl.features import FeatureBank
from fsl.machine import resolve_device
from fsl.progress import Progress
from fsl.tensor_files import read_tensors, write_tensors
from runs.cluster_config import ClusterConfig
from runs.clustering_results import TRIALS, Trials
from runs.clustering_trials import judged
from runs.deep_network import DeepNetwork, Shaken
from runs.store import Store, write_text
from runs.tracked_run import TrackedRun
from runs.tracking import Tracker

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.known_labels import KnownLabels
    from runs.clusterings import Job

NETWORK, BANK, NOTE, FORCED = "network.safetensors", "features.safetensors", "run.json", "forced"
FORMAT = "transduce classifier 1"
WATCHED = ("acc_hungarian", "nmi")
"""Scores along a training, in the record as `watched_...`: for people to look at. Nothing selects by them."""


def check_learner(config: ClusterConfig, method: Any) -> None:
    """That the method can train a network.

    Raises:
        InputError: it cannot; says how its features are clustered.
    """
    if not hasattr(method, "network_objective"):
        raise InputError(
            f"method={config.method.name} trains no network; methods that do: entropy, migd, imsat, iic, sela, "
            "miadm_batch, labelled. Leave network out, or let one of these learn features first, and cluster them with "
            "dataset=features path=FILE, which their run names"
        )
    check_labels(getattr(method, "objective", ""), config.asked_labels() is not None)
    if getattr(method, "pseudo_labels", "batch") == "epoch":
        raise InputError(
            f"method={config.method.name}: a network gets pseudo-labels for each batch, not once an epoch; set "
            "pseudo_labels=batch, or choose method=miadm_batch"
        )


class Inputs(NamedTuple):
    """Points as a network is given them.

    Attributes:
        points: (N, C, H, W) uint8 pictures, or (N, D) float32 rows.
        channels: C, or D.
        size: H of pictures after the crop, 0 of rows.
        augment: makes views.
        prepare: scales and crops.
    """

    points: Tensor
    channels: int
    size: int
    augment: Augment
    prepare: Prepare


def inputs_of(network: DeepNetwork, data: "Dataset") -> Inputs:
    """The points of a data set for a network.

    Raises:
        InputError: rows for a network of pictures, or pictures for one of rows.
    """
    values = data.values
    if network.architecture == "mlp":
        rows = torch.from_numpy(np.asarray(values.todense() if hasattr(values, "todense") else values, np.float32))
        mean, deviation = float(rows.double().mean()), float(rows.double().std()) or 1.0
        return Inputs(
            rows, rows.shape[1], 0, Shaken(network.noise * deviation), lambda part: (part.float() - mean) / deviation
        )
    if data.picture is None:
        raise InputError(
            f"network={network.architecture} is for pictures, and these points are rows of {values.shape[1]} numbers; "
            "choose network=mlp, or leave network out"
        )
    height, width = data.picture
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255 / ((high - low) or 1))
    points = torch.from_numpy(scaled.round().astype(np.uint8)).view(-1, data.channels, height, width)
    size = min(height, width) if network.inner is None else network.inner
    if size > min(height, width):
        raise InputError(f"network.inner={size}: the pictures are of {height} x {width} pixels; set inner to less")
    top, left = (height - size) // 2, (width - size) // 2
    window = (..., slice(top, top + size), slice(left, left + size))
    seen = points[window].double()
    mean, deviation = float(seen.mean()), float(seen.std()) or 1.0

    def prepare(part: Tensor) -> Tensor:
        return ((part[window].float() - mean) / deviation).contiguous(memory_format=torch.channels_last)

    return Inputs(points, data.channels, size, network.changes, prepare)


def learn(
    job: "Job",
    data: "Dataset",
    known: "KnownLabels | None",
    clusters: int,
    store: Store,
    tracker: Tracker,
    progress: Progress,
    *,
    force: bool,
) -> tuple[str, Trials]:
    """Train the network of a config, or go on with a training that was interrupted; its run, and what it came to.

    The network is in the store's checkpoints, what its last layer makes of the points in its features, by the identity
    of the run.
    """
    config, key = job.config, job.identity
    forced = store.cache("checkpoints") / f"{key}.partial" / FORCED  # so that one that was interrupted goes on, too
    if force and not forced.exists():
        store.partial("checkpoints", key, fresh=True)
        forced.touch()
    finished = None if forced.exists() else store.find("checkpoints", key, progress.note)
    note = (store.partial("checkpoints", key) if finished is None else finished.path) / NOTE
    run = run_of(job, note, (data.values.shape[0], data.values.shape[1]), clusters, tracker)
    network: DeepNetwork = config.network.build()
    inputs, device = inputs_of(network, data), resolve_device(config.device)
    since = time.perf_counter()
    with run.guarded():
        if finished is None:
            model = _trained(job, network, inputs, data, known, clusters, device, store, run, progress)
        else:  # stopped between the training and the mark in the record
            model = _loaded(finished.path / NETWORK, network, inputs, clusters)
        log_p = predictions(model, inputs.points, inputs.prepare, device)
        labels = log_p.argmax(1).numpy() if known is None else np.where(known.known, known.labels, log_p.argmax(1))
        trials = _trials(job, model, log_p, labels, data, known, time.perf_counter() - since)
        found = features(model, inputs.points, inputs.prepare, device)
        keep_bank(job, found, labels, clusters, data, store, progress)
        with store.watched(), tempfile.TemporaryDirectory() as folder:
            trials.save(Path(folder) / TRIALS)
            run.artifact(Path(folder) / TRIALS)
        bank = store.cache("features") / key / BANK
        sizes = np.bincount(labels, minlength=clusters)
        lost = int((sizes == 0).sum())
        run.log(
            metrics=trials.metrics() | {"seconds": time.perf_counter() - since, "trials": 1, "empty_clusters": lost},
            tags={"features": str(bank), "sizes": " ".join(map(str, sizes))},
        )
        if finished is None:
            store.publish("checkpoints", key, [NETWORK], {"run": run.run_id, "epochs": network.epochs})
        run.finish()
    for rest in ("last.ckpt", FORCED):
        (store.cache("checkpoints") / key / rest).unlink(missing_ok=True)
    if lost:
        progress.note(
            f"{job.name}: {lost} of {clusters} clusters have no points; another seed, fewer clusters, known labels or "
            "another prior may mend it"
        )
    progress.note(f"learned features: {bank} (transduce cluster dataset=features path={bank} method=kmeans)")
    return run.run_id, trials


def run_of(job: "Job", note: Path, shape: tuple[int, int], clusters: int, tracker: Tracker) -> TrackedRun:
    """The run that an interrupted training left, or a new one."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        run = tracker.resume(json.loads(note.read_text())["run"])
        if run is not None:
            tracker.say(f"going on with the interrupted training of {job.name}")
            return run
    started = job.start(
        shape, clusters, tracker, watched=f"{', '.join(WATCHED)} along the training: nothing selects by them"
    )
    write_text(note, json.dumps({"run": started.run_id}))
    return started


def _trained(
    job: "Job",
    network: DeepNetwork,
    inputs: Inputs,
    data: "Dataset",
    known: "KnownLabels | None",
    clusters: int,
    device: torch.device,
    store: Store,
    run: TrackedRun,
    progress: Progress,
) -> Classifier:
    from sklearn.exceptions import ConvergenceWarning

    method = job.config.method.build()
    objective = method.network_objective()
    if hasattr(objective, "agreement"):
        objective = dataclasses.replace(objective, agreement=network.agreement)
    training = network.training(method.margin_weight)
    batch = min(training.batch_size, len(inputs.points))
    total = training.epochs * (len(inputs.points) // batch) * batch
    partial = store.partial("checkpoints", job.identity)
    with store.watched(), progress.track(f"training {job.name}", total) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said of the result, once
        found = train(
            network.backbone(inputs.channels, inputs.size),
            inputs.points,
            clusters,
            objective,
            training,
            prior=prior_of(method, clusters),
            seed=job.config.seed,
            partial_labels=None if known is None else known.labels,
            augment=inputs.augment,
            prepare=inputs.prepare,
            folder=partial,
            device=device,
            log=run,
            observe=watched_scores(data, known),
            advance=advance,
        )
        header = {"format": FORMAT, "architecture": network.architecture, "channels": str(inputs.channels)}
        write_tensors(
            partial / NETWORK, found.model.state_dict(), header | {"size": str(inputs.size), "clusters": str(clusters)}
        )
    if found.resumed_at:
        progress.note(f"{job.name}: went on after epoch {found.resumed_at}")
    return found.model


def prior_of(method: Any, clusters: int) -> NDArray[np.float64]:
    """(K,) expected sizes of the clusters, summing to one."""
    prior = getattr(method, "prior", "balanced")
    return checked_prior(np.ones(clusters) if isinstance(prior, str) else prior, clusters).double().numpy()


def watched_scores(
    data: "Dataset", known: "KnownLabels | None"
) -> Callable[[NDArray[np.int64]], Mapping[str, float]] | None:
    """Scores of an epoch's clusters, of points that it saw and whose class it was not told."""
    if data.labels is None:
        return None
    from clustering.protocol import scores

    true = data.labels
    others = np.ones(len(true), dtype=bool) if known is None else ~known.known

    def observe(seen: NDArray[np.int64]) -> Mapping[str, float]:
        rows = others & (seen >= 0)
        found = scores(seen[rows], true[rows])
        return {f"watched_{name}": found[name] for name in WATCHED}

    return observe


def _loaded(path: Path, network: DeepNetwork, inputs: Inputs, clusters: int) -> Classifier:
    """A classifier with the weights of a file."""
    weights, _ = read_tensors(path, FORMAT, "give the command again with --force")
    with torch.random.fork_rng(devices=[]):
        backbone = network.backbone(inputs.channels, inputs.size)()
        model = Classifier(backbone, inputs.prepare(inputs.points[:2]), clusters, torch.Generator())
    model.load_state_dict(weights)
    return model.eval()


def _trials(
    job: "Job",
    model: Classifier,
    log_p: Tensor,
    labels: NDArray[Any],
    data: "Dataset",
    known: "KnownLabels | None",
    seconds: float,
) -> Trials:
    """One trial, valued by the objective of equation 14 whatever it was trained by."""
    method = job.config.method.build()
    prior = torch.from_numpy(prior_of(method, log_p.shape[1])).to(log_p)
    spread = losses.tolerant_fairness(log_p.exp().mean(0), prior)
    norm = method.margin_weight * float(losses.margin_norm(model.head.weight.detach()))
    value = np.array([float(losses.mean_entropy(log_p) + spread) + norm])
    epochs = job.config.network.options["epochs"]
    return Trials(
        settings=({},),
        setting=np.zeros(1, dtype=np.int64),
        start=np.zeros(1, dtype=np.int64),
        seeds=np.array([random_state(job.config.seed, 0)]),
        given=np.ones(1, dtype=bool),
        tried=np.zeros(1, dtype=bool),
        labels=labels[None].astype(np.min_scalar_type(log_p.shape[1])),
        confidence=log_p.amax(1).exp().numpy(),
        mode_indices=None,
        mode_movements=None,
        objective=value,
        criterion=value,
        clusters=np.array([len(np.unique(labels))]),
        iterations=np.array([epochs]),
        seconds=np.array([[0.0, 0.0, seconds]]),
        **judged(labels[None], data, known),
    )


def keep_bank(
    job: "Job",
    found: Tensor,
    labels: NDArray[Any],
    clusters: int,
    data: "Dataset",
    store: Store,
    progress: Progress,
) -> None:
    """Learned features (N, D) as a feature bank; without classes its labels are the clusters (N,)."""
    with store.lock("features", job.identity, f"the features of {job.name}", progress.note):
        known = data.labels is not None
        bank = FeatureBank(
            found,
            torch.from_numpy(np.asarray(data.labels if known else labels, dtype=np.int64)),
            data.class_names if known else tuple(f"cluster {k}" for k in range(clusters)),
            found.double().mean(0).float(),
            {
                "dataset": job.config.dataset.name,
                "network": job.config.network.name,
                "method": job.config.method.name,
                "seed": str(job.config.seed),
                "run": job.identity,
                "labels": "classes" if known else "clusters found",
            },
        )
        partial = store.partial("features", job.identity, fresh=True)
        with store.watched():
            bank.save(partial / BANK)
        store.publish("features", job.identity, [BANK], {"run": job.identity, "points": len(found)})
