"""Clustering with a network that learns its features, as one run in the record with live curves."""

import dataclasses
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.deep import losses
from clustering.deep.networks import Classifier, features, predictions
from clustering.deep.prior import checked_prior
from clustering.deep.training import train
from clustering.evaluation.protocol import random_state
from clustering.files.tensors import write_tensors
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress
from fsl.machine import resolve_device
from runs.config.cluster import ClusterConfig
from runs.stages.clustering.deep_network import DeepNetwork
from runs.stages.clustering.feature_maps import points_of_map, with_map
from runs.stages.clustering.learning_run import NETWORK, Learned, LearningRun, LearningStage, watched_scores
from runs.stages.clustering.network_inputs import Inputs, check_fits, inputs_of
from runs.stages.clustering.results import Trials
from runs.stages.clustering.trials import judged, told, told_points
from runs.stages.points import Points, Problem
from runs.stages.stage import Workspace

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels

FORMAT = "transduce network 1"
LOST = "clusters have no points"  # part of the training's warning, which is replaced by a message after the whole run
BALANCED = "balanced"  # the prior of clusters of equal size
UNSURE = 0.5  # mean confidence, rescaled from chance (0) to certainty (1); below it, the result is doubted
ASTRAY = 0.25  # share of points that would have to change clusters to match the prior; above it, the result is doubted
ENOUGH = 300  # steps that suffice for most data sets of small images


def check_learner(config: ClusterConfig, method: Any) -> None:
    """Check that the method can train a network.

    Raises:
        InputError: it cannot; the message says how to cluster its features.
    """
    if not hasattr(method, "network_objective"):
        raise InputError(
            f"method={config.method.name} trains no network; methods that do: entropy, migd, imsat, iic, sela, "
            "miadm, miadm_batch, labelled, labelled_reverse, labelled_absolute. Leave network out, or let one of these "
            "learn features first, and cluster them with dataset=features path=FILE, which their run names"
        )
    for given, name, what in ((config.links, "links", "known pairs"), (config.coarse, "coarse", "coarse labels")):
        if given is not None:
            raise InputError(f"{name}=: with network= there are no {what}; leave {name} out, or take method=xsdc")


@dataclass(frozen=True)
class NetworkStage(LearningStage):
    """One training of a network by a clustering method."""

    remedy = "another seed, fewer clusters, known labels or another prior"

    def check(self, prepared: Points) -> None:
        super().check(prepared)
        resolve_device(self.config.device)
        network: DeepNetwork = self.config.network.build()
        check_fits(network, inputs_of(network, prepared.data))

    def learn(
        self, learning: LearningRun, problem: Problem, prepared: Points, work: Workspace
    ) -> tuple[Trials, Learned]:
        data, known, network = prepared.data, problem.known, self.config.network.build()
        inputs, device = inputs_of(network, data), resolve_device(self.config.device)
        mapped = points_of_map(self.config, told_points(known), data.values.shape[0])
        model = self._trained(learning, problem, network, inputs, data, work)
        log_p = predictions(model, inputs.points, inputs.prepare, device)
        labels = log_p.argmax(1).numpy() if known is None else np.where(known.known, known.labels, log_p.argmax(1))
        trials = _trials(self.config, model, log_p, labels, data, known, learning.seconds)
        made_of = features(model, inputs.points, inputs.prepare, device)
        learned = Learned(made_of, labels, told_points(known))
        _say_doubts(self, log_p, known, work.progress)
        return with_map(trials, learned, mapped, data.labels, self.config.seed), learned

    def _trained(
        self,
        learning: LearningRun,
        problem: Problem,
        network: DeepNetwork,
        inputs: Inputs,
        data: "Dataset",
        work: Workspace,
    ) -> Classifier:
        from sklearn.exceptions import ConvergenceWarning

        clusters, known, progress = problem.clusters, problem.known, work.progress
        method = told(self.config)
        objective = method.network_objective()
        if hasattr(objective, "agreement"):
            objective = dataclasses.replace(objective, agreement=network.agreement)
        training = network.training(method.margin_weight)
        batch = min(training.batch_size, len(inputs.points))
        total = training.epochs * (len(inputs.points) // batch) * batch
        caught = warnings.catch_warnings(record=True)
        with work.store.watched(), progress.track(f"training {self.name}", total) as advance, caught as warned:
            warnings.simplefilter("default", ConvergenceWarning)
            found = train(
                network.backbone(inputs.channels, inputs.size),
                inputs.points,
                clusters,
                objective,
                training,
                prior=getattr(method, "prior", BALANCED),
                relabel=getattr(method, "pseudo_labels", "batch"),
                seed=self.config.seed,
                partial_labels=None if known is None else known.labels,
                augment=inputs.augment,
                prepare=inputs.prepare,
                folder=learning.folder,
                device=resolve_device(self.config.device),
                log=learning,
                observe=watched_scores(data, known),
                advance=advance,
                say=progress.note,
            )
            header = {"format": FORMAT, "architecture": network.architecture, "channels": str(inputs.channels)}
            header |= {"size": str(inputs.size), "clusters": str(clusters)}
            write_tensors(learning.folder / NETWORK, found.model.state_dict(), header)
        for text in dict.fromkeys(str(one.message) for one in warned or () if LOST not in str(one.message)):
            progress.note(f"{self.name}: {text}")
        if found.resumed_at:
            progress.note(f"{self.name}: went on after epoch {found.resumed_at}")
        return found.model


def _say_doubts(stage: LearningStage, log_p: Tensor, known: "KnownLabels | None", progress: Progress) -> None:
    """Report a training that ended with low confidence, or with sizes far from the prior, and suggest a remedy."""
    (points, clusters), method, network = log_p.shape, stage.config.method.build(), stage.config.network.build()
    if clusters == 1:
        return
    open_points = slice(None) if known is None else torch.from_numpy(~known.known)
    sure, chance = float(log_p[open_points].amax(1).exp().mean()), 1 / clusters
    doubts = []
    if (sure - chance) / (1 - chance) < UNSURE:
        doubts.append(f"it is far from sure of its clusters (confidence {sure:.2f} on average; {chance:.2f} is chance)")
    prior = checked_prior(getattr(method, "prior", BALANCED), clusters)
    shares = torch.bincount(log_p.argmax(1), minlength=clusters).cpu() / points
    if method.network_objective().takes_prior and float((shares - prior).abs().sum()) / 2 > ASTRAY:
        most = int((shares - prior).argmax())
        doubts.append(f"a cluster has {shares[most]:.0%} of the points where {prior[most]:.0%} are expected")
    if not doubts:
        return
    each = max(1, points // min(network.batch_size, points))
    steps = network.epochs * each
    remedy = "more epochs, known labels, other sizes (prior=) or another network may mend it"
    if steps < ENOUGH:
        taken = "1 step" if steps == 1 else f"{steps} steps"
        remedy = f"it took {taken}, and most need some hundred: give more, as epochs={-(-ENOUGH // each)}"
    progress.note(f"{stage.name}: do not rely on this result: {' and '.join(doubts)}; {remedy}")


def _trials(
    config: ClusterConfig,
    model: Classifier,
    log_p: Tensor,
    labels: NDArray[Any],
    data: "Dataset",
    known: "KnownLabels | None",
    seconds: float,
) -> Trials:
    """Return the single trial; its objective is that of equation 14 whatever the training minimised."""
    method = config.method.build()
    prior = checked_prior(getattr(method, "prior", BALANCED), log_p.shape[1]).to(log_p)
    spread = losses.tolerant_fairness(log_p.exp().mean(0), prior)
    norm = method.margin_weight * float(losses.margin_norm(model.head.weight.detach()))
    value = np.array([float(losses.mean_entropy(log_p) + spread) + norm])
    epochs = config.network.options["epochs"]
    return Trials(
        settings=({},),
        setting=np.zeros(1, dtype=np.int64),
        start=np.zeros(1, dtype=np.int64),
        seeds=np.array([random_state(config.seed, 0)]),
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
