"""Clustering with a network that learns its features, as one run of the record, with live curves."""

import dataclasses
import warnings
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
from fsl.machine import resolve_device
from fsl.progress import Progress
from fsl.tensor_files import read_tensors, write_tensors
from runs.cluster_config import ClusterConfig
from runs.clustering_results import Trials
from runs.clustering_trials import judged, told
from runs.deep_network import DeepNetwork, Shaken
from runs.learning_run import NETWORK, LearningRun, watched_scores
from runs.store import Store
from runs.tracking import Tracker

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.known_labels import KnownLabels
    from runs.clusterings import Job

FORMAT = "transduce classifier 1"


def check_learner(config: ClusterConfig, method: Any) -> None:
    """That the method can train a network.

    Raises:
        InputError: it cannot; says how its features are clustered.
    """
    if not hasattr(method, "network_objective"):
        raise InputError(
            f"method={config.method.name} trains no network; methods that do: entropy, migd, imsat, iic, sela, "
            "miadm_batch, labelled, labelled_reverse, labelled_absolute. Leave network out, or let one of these learn "
            "features first, and cluster them with dataset=features path=FILE, which their run names"
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
    """Train the network of a config, or go on with a training that was interrupted; its run, and what it came to."""
    network: DeepNetwork = job.config.network.build()
    inputs, device = inputs_of(network, data), resolve_device(job.config.device)
    learning = LearningRun.begun(job, data, clusters, store, tracker, progress, force=force)
    with learning.run.guarded():
        if learning.finished:  # stopped between the training and the mark in the record
            model = _loaded(learning.folder / NETWORK, network, inputs, clusters)
        else:
            model = _trained(learning, network, inputs, known, device)
        log_p = predictions(model, inputs.points, inputs.prepare, device)
        labels = log_p.argmax(1).numpy() if known is None else np.where(known.known, known.labels, log_p.argmax(1))
        trials = _trials(job, model, log_p, labels, data, known, learning.seconds)
        learning.keep(
            trials,
            features(model, inputs.points, inputs.prepare, device),
            labels,
            {"epochs": network.epochs},
            remedy="another seed, fewer clusters, known labels or another prior",
        )
    return learning.run.run_id, trials


def _trained(
    learning: LearningRun, network: DeepNetwork, inputs: Inputs, known: "KnownLabels | None", device: torch.device
) -> Classifier:
    from sklearn.exceptions import ConvergenceWarning

    job, progress = learning.job, learning.progress
    method = told(job.config)
    objective = method.network_objective()
    if hasattr(objective, "agreement"):
        objective = dataclasses.replace(objective, agreement=network.agreement)
    training = network.training(method.margin_weight)
    batch = min(training.batch_size, len(inputs.points))
    total = training.epochs * (len(inputs.points) // batch) * batch
    with learning.store.watched(), progress.track(f"training {job.name}", total) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said of the result, once
        found = train(
            network.backbone(inputs.channels, inputs.size),
            inputs.points,
            learning.clusters,
            objective,
            training,
            prior=prior_of(method, learning.clusters),
            seed=job.config.seed,
            partial_labels=None if known is None else known.labels,
            augment=inputs.augment,
            prepare=inputs.prepare,
            folder=learning.folder,
            device=device,
            log=learning.run,
            observe=watched_scores(learning.data, known),
            advance=advance,
        )
        header = {"format": FORMAT, "architecture": network.architecture, "channels": str(inputs.channels)}
        header |= {"size": str(inputs.size), "clusters": str(learning.clusters)}
        write_tensors(learning.folder / NETWORK, found.model.state_dict(), header)
    if found.resumed_at:
        progress.note(f"{job.name}: went on after epoch {found.resumed_at}")
    return found.model


def prior_of(method: Any, clusters: int) -> NDArray[np.float64]:
    """(K,) expected sizes of the clusters, summing to one."""
    prior = getattr(method, "prior", "balanced")
    return checked_prior(np.ones(clusters) if isinstance(prior, str) else prior, clusters).double().numpy()


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
