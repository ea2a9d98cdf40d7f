"""The small case of a clustering: its method on a few hundred points, or a few steps of its training on fewer."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clustering.datasets.dataset import Dataset
from clustering.datasets.digits import Digits
from clustering.deep.stepwise_method import StepwiseMethod
from clustering.foundation.progress import quiet
from runs.config.base import FILES
from runs.config.cluster import ClusterConfig
from runs.record.exports.outcome import Numbers
from runs.stages.clustering.fitting import BALANCED, ClusteringStage
from runs.stages.clustering.shared_graphs import SharedGraphs
from runs.stages.clustering.trials import fit_all, known_to_method, told

POINTS, IN_STEPS = 200, 100  # points of a fit, and of a training in steps
STARTS = 2
FEWER = {"n_init": 8, "deep_clusters": 20}  # largest values of options
STEPS = {"max_iter": 10, "steps": 3, "supervised_steps": 3}  # of a training
SEEN, BATCH = 40, 20  # points that a network is trained on
LABELS, LINKS = "20", 30  # points with known labels, some in each class, and known pairs, where the run has such
ENLARGED = 4  # factor of the pictures that networks see


def clustering_case(config: ClusterConfig) -> Numbers:
    """Return the numbers of the small case: on points of the run's data set if it needs no files, else on digits.
    Networks on pictures always see digits.

    Raises:
        InputError: there is none, since these points do not suit the method.
    """
    config = config.replace(
        seed=0,
        device="cpu",
        labels=config.labels and LABELS,
        links=config.links and LINKS,
        starts=min(STARTS, config.fits),
    )
    method: Any = config.method.build()
    in_steps = hasattr(method, "network_objective") or isinstance(method, StepwiseMethod)
    largest, options = FEWER | (STEPS if in_steps else {}), config.method.options
    fewer = {name: min(most, value) for name, most in largest.items() if (value := options.get(name))}
    config = config.replace(method=config.method.at(fewer))
    pictures = config.learns or getattr(method, "representation", "") in ("lenet5", "ckn_gm")
    data = _points(config, SEEN if config.learns else IN_STEPS if in_steps else POINTS, pictures=pictures)
    return _trained(config, data) if config.learns else _fitted(config, data)


def _points(config: ClusterConfig, count: int, *, pictures: bool) -> Dataset:
    """At most `count` points, which networks on pictures see enlarged, in colour if theirs are."""
    own = not pictures and not any(name in config.dataset.options for name in FILES)
    data: Dataset = config.dataset.build().read() if own else Digits().read()
    total = data.values.shape[0]
    rows = np.unique(np.linspace(0, total - 1, min(count, total)).astype(int))
    values = data.values[rows]
    if pictures:
        large = np.kron(values.reshape(-1, 8, 8), np.ones((1, ENLARGED, ENLARGED), np.float32))
        colours = 3 if config.method.options.get("representation") == "ckn_gm" else 1
        values = np.repeat(large.reshape(len(rows), 1, -1), colours, axis=1).reshape(len(rows), -1)
        data = data._replace(picture=large.shape[1:], channels=colours)
    labels = None if data.labels is None else data.labels[rows]
    return data._replace(values=values, labels=labels, names=(), told=None, kept=None)


def _fitted(config: ClusterConfig, data: Dataset) -> Numbers:
    selection = ClusteringStage.on(config, "").selection
    if selection is not None:
        selection = selection._replace(trials=STARTS)
    known, clusters = known_to_method(config, data), config.n_clusters or len(data.class_names)
    with tempfile.TemporaryDirectory() as cache:
        graphs = SharedGraphs(data.values, Path(cache), quiet)
        trials = fit_all(config, selection, data, known, graphs, clusters, quiet, "")
    scores = {name: tuple(map(float, values)) for name, values in trials.scores.items() if name in ("nmi", "accuracy")}
    objective = tuple(float(value) for value in trials.objective if np.isfinite(value))
    sure = () if trials.confidence is None else (float(trials.confidence.mean()),)
    sizes = _sizes(trials.labels[trials.chosen], clusters)
    return {"objective": objective, "sizes": sizes, "probabilities": sure, **scores}


def _trained(config: ClusterConfig, data: Dataset) -> Numbers:
    """One epoch of the training of a network."""
    from clustering.deep.networks import predictions
    from clustering.deep.training import train
    from runs.stages.clustering.network_inputs import inputs_of

    fewer = {"epochs": 1, "batch_size": BATCH, "inner": None}
    network, method = config.network.at(fewer).build(), told(config)
    inputs, known = inputs_of(network, data), known_to_method(config, data)
    clusters = config.n_clusters or len(data.class_names)
    model = train(
        network.backbone(inputs.channels, inputs.size),
        inputs.points,
        clusters,
        method.network_objective(),
        network.training(method.margin_weight),
        prior=getattr(method, "prior", BALANCED),
        relabel=getattr(method, "pseudo_labels", "batch"),
        partial_labels=None if known is None else known.labels,
        augment=inputs.augment,
        prepare=inputs.prepare,
        say=lambda _: None,
    ).model
    found = predictions(model, inputs.points, inputs.prepare, torch.device("cpu")).double().exp()
    return {
        "entropy": (float(torch.special.entr(found).sum(1).mean()),),
        "probabilities": tuple(found.mean(0).tolist()),
    }


def _sizes(labels: Any, clusters: int) -> tuple[float, ...]:
    """Sizes of the clusters as shares of the points, in order, at most ten."""
    shares = np.sort(np.bincount(labels[labels >= 0], minlength=clusters))[::-1] / len(labels)
    return tuple(map(float, shares[:10]))
