"""Clustering with a network that learns its features, as one run in the record with live curves."""

import dataclasses
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from clustering.deep import losses
from clustering.deep.networks import features, predictions
from clustering.deep.prior import checked_prior
from clustering.deep.settings import DeepTraining
from clustering.deep.training import train
from clustering.evaluation.protocol import schedule
from clustering.files.tensors import write_tensors
from clustering.foundation.errors import InputError
from fsl.machine import resolve_device
from runs.config.cluster import ClusterConfig
from runs.record.tracked_run import TrackedRun
from runs.stages.clustering.deep_network import DeepNetwork, check_fits, inputs_of
from runs.stages.clustering.learning import NETWORK, Learned, LearningStage, watched_scores
from runs.stages.clustering.stage import BALANCED, Problem
from runs.stages.clustering.trials import facts_of, told, trials_of
from runs.stages.points import Points
from runs.stages.stage import Workspace

FORMAT = "transduce network 1"
LOST = "clusters have no points"  # part of the training's warning, which is replaced by a message after the whole run


def check_learner(config: ClusterConfig, method: Any) -> None:
    """Raise InputError unless the method can train a network with what is known; the message says what else to do."""
    if not hasattr(method, "network_objective"):
        raise InputError(
            f"method={config.method.name} trains no network; methods that do: entropy, migd, imsat, iic, sela, "
            "miadm, miadm_batch, labelled, labelled_reverse, labelled_absolute. Leave network out, or let one of these "
            "learn features first, and cluster them with dataset=features path=FILE, which their run names"
        )
    for name in ("links", "coarse"):
        if getattr(config, name) is not None:
            raise InputError(f"{name}= is not possible with network=; leave {name} out, or take method=xsdc")


@dataclass(frozen=True, kw_only=True)
class NetworkStage(LearningStage):
    """One training of a network by a clustering method."""

    remedy = "another seed, fewer clusters, known labels or another prior"

    def check(self, prepared: Points) -> None:
        super().check(prepared)
        resolve_device(self.config.device)
        network: DeepNetwork = self.config.network.build()
        check_fits(network, inputs_of(network, prepared.data))

    def learn(self, run: TrackedRun, folder: Path, problem: Problem, points: Points, work: Workspace) -> Learned:
        from sklearn.exceptions import ConvergenceWarning

        (clusters, known, _), progress, network = problem, work.progress, self.config.network.build()
        inputs, device, since = inputs_of(network, points.data), resolve_device(self.config.device), time.perf_counter()
        method = told(self.config)
        objective, training = method.network_objective(), network.part(DeepTraining, margin_weight=method.margin_weight)
        if hasattr(objective, "agreement"):
            objective = dataclasses.replace(objective, agreement=network.agreement)
        prior = getattr(method, "prior", BALANCED)
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
                prior=prior,
                relabel=getattr(method, "pseudo_labels", "batch"),
                seed=self.config.seed,
                partial_labels=known.partial,
                augment=inputs.augment,
                prepare=inputs.prepare,
                folder=folder,
                device=device,
                log=run,
                observe=watched_scores(points.data, known),
                advance=advance,
                say=progress.note,
            )
            header = {"format": FORMAT, "architecture": network.architecture, "channels": str(inputs.channels)}
            header |= {"size": str(inputs.size), "clusters": str(clusters)}
            write_tensors(folder / NETWORK, found.model.state_dict(), header)
        for text in dict.fromkeys(str(one.message) for one in warned or () if LOST not in str(one.message)):
            progress.note(f"{self.name}: {text}")
        if found.resumed_at:
            progress.note(f"{self.name}: went on after epoch {found.resumed_at}")
        log_p = predictions(found.model, inputs.points, inputs.prepare, device)
        labels = log_p.argmax(1).numpy()
        if known.labels is not None:
            labels = np.where(known.labels.known, known.labels.labels, labels)
        # The objective is that of equation 14 whatever the training minimised.
        shares = checked_prior(prior, clusters).to(log_p)
        value = float(losses.mean_entropy(log_p) + losses.tolerant_fairness(log_p.exp().mean(0), shares))
        value += method.margin_weight * float(losses.margin_norm(found.model.head.weight.detach()))
        model = SimpleNamespace(labels_=labels, objective_=value, assignments_=log_p.exp(), n_iter_=network.epochs)
        model.seconds_ = (0.0, 0.0, time.perf_counter() - since)
        trials = trials_of(self.config, [facts_of(model)], schedule(1, None), [{}], points.data, known)
        return trials, features(found.model, inputs.points, inputs.prepare, device)
