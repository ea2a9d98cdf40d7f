"""Stages of clusterings that learn features: a training is resumed, its weights and features are stored."""

import dataclasses
import os
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.deep import losses
from clustering.deep.networks import outputs
from clustering.deep.settings import DeepTraining, checked_prior
from clustering.evaluation.protocol import schedule, scores
from clustering.files.tensors import write_tensors
from clustering.foundation.devices import resolve_device
from clustering.foundation.errors import InputError, setting
from clustering.foundation.progress import quiet
from clustering.foundation.streams import stream
from fsl.features.bank import FeatureBank
from runs.config.cluster import ClusterConfig
from runs.record.tracked_run import TrackedRun
from runs.stages.clustering.deep_network import DeepNetwork, check_fits, inputs_of
from runs.stages.clustering.fitting import BALANCED, ClusteringStage, Fitted
from runs.stages.clustering.learned_methods import keep_method
from runs.stages.clustering.results import Trials
from runs.stages.clustering.trials import Known, facts_of, fit_all, told, trials_of
from runs.stages.points import Points
from runs.stages.stage import Workspace

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset

NETWORK, BANK = "network.safetensors", "features.safetensors"
Learned = tuple[Trials, Tensor]  # the single trial, and the features (N, D)
WATCHED = ("acc_hungarian", "nmi")
"""Scores during the training, in the record as `watched_...`, for information only; no selection uses them."""
PERPLEXITY = 30.0  # scikit-learn's default
FEWEST = 10  # points of a map
FORMAT = "transduce network 1"
LOST = "clusters have no points"  # part of the training's warning, which is replaced by a message after the whole run

UNSURE = 0.5  # mean confidence, rescaled from chance (0) to certainty (1); below it, the result is doubted
ASTRAY = 0.25  # share of points that would have to change clusters to match the prior; above it, the result is doubted
ENOUGH = 300  # steps that suffice for most data sets of small images


@dataclass(frozen=True, kw_only=True)
class LearningStage(ClusteringStage):
    """One config whose method learns features. Weights and features are files of the result."""

    @abstractmethod
    def learn(self, run: TrackedRun, folder: Path, known: Known, points: Points, work: Workspace) -> Learned:
        """Train, or resume an interrupted training, in a folder, and leave the weights there in the file `NETWORK`."""

    def fit(self, run: TrackedRun, known: Known, points: Points, work: Workspace) -> Fitted:
        data, config, told = points.data, self.config, known.told
        mapped = points_of_map(config, known, data.values.shape[0])
        folder = work.store.working(self.kind, self.key, force=work.force)
        trials, features = self.learn(run, folder, known, points, work)
        labels = trials.labels[0].astype(np.int64)
        classes = None if data.labels is None else np.asarray(data.labels, dtype=np.int64)
        if mapped is not None:  # in the plane, so that figures need no features
            from sklearn.manifold import TSNE

            model = TSNE(perplexity=min(PERPLEXITY, (len(mapped) - 1) / 3), random_state=config.seed)
            places = np.asarray(model.fit_transform(features[mapped].numpy()), dtype=np.float32)
            true = None if classes is None else classes[mapped]
            trials = dataclasses.replace(trials, feature_map=places, mapped_classes=true)
        provenance = {group: config.choices()[group].name for group in ("dataset", "network", "method")}
        provenance |= {"seed": str(config.seed), "run": self.key, "links": str(config.links or 0)}
        provenance |= {"labels": "clusters found" if classes is None else "classes"}
        provenance |= {"told": "0" if told is None else str(int(told.sum()))}
        bank = FeatureBank(
            features,
            torch.from_numpy(labels if classes is None else classes),
            data.class_names if classes is not None else tuple(f"cluster {k}" for k in range(known.clusters)),
            features.double().mean(0).float(),
            provenance,
            None if told is None else torch.from_numpy(told),
        )
        bank.save(folder / BANK)
        path, sizes = work.store.cache(self.kind) / self.key / BANK, np.bincount(labels, minlength=known.clusters)
        work.progress.note(
            f"learned features: {path} (transduce cluster dataset=features {setting('path', path)} method=kmeans)"
        )
        tags = {"features": str(path), "sizes": " ".join(map(str, sizes))}
        tags |= {"watched": f"{', '.join(WATCHED)} along the training: nothing selects by them"}
        return trials, {"empty_clusters": int((sizes == 0).sum())}, tags

    def save(self, content: Trials, folder: Path) -> None:
        super().save(content, folder)
        for name in (NETWORK, BANK):
            os.link(folder.with_name(f"{self.key}.partial") / name, folder / name)


@dataclass(frozen=True, kw_only=True)
class StepwiseStage(LearningStage):
    """One training of a method that learns features in steps."""

    remedy = "another penalty, more labels, or bounds nearer to the sizes that you expect"

    def learn(self, run: TrackedRun, folder: Path, known: Known, points: Points, work: Workspace) -> Learned:
        (data, graphs), fitted, config = points, list[Any](), self.config
        steps = config.method.build().set_params(n_clusters=known.clusters).planned_steps(known.partial)
        with work.progress.track(f"training {self.name}", steps) as advance:
            watch = {"log": run, "observe": watched_scores(data, known), "advance": advance, "folder": folder}
            trials = fit_all(config, None, data, known, graphs, quiet, given=watch, take=fitted.append)
            keep_method(folder / NETWORK, fitted[0], config.method.plugin)
        path = work.store.cache(self.kind) / self.key / NETWORK
        reader = "runs.stages.clustering.learned_methods.learned_method of this file clusters other points"
        work.progress.note(f"learned method: {path} ({reader})")
        return trials, torch.from_numpy(fitted[0].transform(data.values)).float()


@dataclass(frozen=True, kw_only=True)
class NetworkStage(LearningStage):
    """One training of a network by a clustering method."""

    remedy = "another seed, fewer clusters, known labels or another prior"

    def check(self, prepared: Points) -> None:
        super().check(prepared)
        resolve_device(self.config.device)
        network: DeepNetwork = self.config.network.build()
        check_fits(network, inputs_of(network, prepared.data))

    def learn(self, run: TrackedRun, folder: Path, known: Known, points: Points, work: Workspace) -> Learned:
        from sklearn.exceptions import ConvergenceWarning

        from clustering.deep.training import train  # with Lightning, whose import is slow

        progress, clusters, network = work.progress, known.clusters, self.config.network.build()
        inputs, device, since = inputs_of(network, points.data), resolve_device(self.config.device), time.perf_counter()
        method = told(self.config)
        objective, training = method.network_objective(), network.part(DeepTraining, margin_weight=method.margin_weight)
        if hasattr(objective, "agreement"):
            objective = dataclasses.replace(objective, agreement=network.agreement)
        prior = getattr(method, "prior", BALANCED)
        batch = min(training.batch_size, len(inputs.points))
        total = training.epochs * (len(inputs.points) // batch) * batch
        caught = warnings.catch_warnings(record=True)
        with progress.track(f"training {self.name}", total) as advance, caught as warned:
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
        log_p = outputs(found.model, inputs.points, inputs.prepare, device)
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
        doubts = doubts_of(log_p, known, shares if objective.takes_prior else None)
        if doubts:
            remedy = "more epochs, known labels, other sizes (prior=) or another network may mend it"
            if total < ENOUGH * batch:
                epochs = -(-ENOUGH * batch * training.epochs // total)
                remedy = f"it took {total // batch} steps, and most need some hundred: give more, as epochs={epochs}"
            progress.note(f"{self.name}: do not rely on this result: {' and '.join(doubts)}; {remedy}")
        return trials, outputs(found.model.backbone, inputs.points, inputs.prepare, device)


def doubts_of(log_p: Tensor, known: Known, prior: Tensor | None) -> list[str]:
    """Return why a training is not to be relied on: low confidence, or sizes far from the prior.

    Args:
        log_p: (N, K) logarithms of the predictions.
        known: what the method was told; the confidence is that of the other points.
        prior: (K,) expected shares of the clusters; None if the objective does not depend on them.
    """
    clusters, found = log_p.shape[1], list[str]()
    if clusters == 1:
        return found
    others = slice(None) if known.told is None else torch.from_numpy(~known.told)
    sure, chance = float(log_p[others].amax(1).exp().mean()), 1 / clusters
    if (sure - chance) / (1 - chance) < UNSURE:
        found.append(f"it is far from sure of its clusters (confidence {sure:.2f} on average; {chance:.2f} is chance)")
    if prior is not None:
        sizes = torch.bincount(log_p.argmax(1), minlength=clusters) / len(log_p)
        most = int((sizes - prior).argmax())
        if float((sizes - prior).abs().sum()) / 2 > ASTRAY:
            found.append(f"a cluster has {sizes[most]:.0%} of the points where {prior[most]:.0%} are expected")
    return found


def watched_scores(data: "Dataset", known: Known) -> Callable[[NDArray[np.int64]], Mapping[str, float]] | None:
    """Return a function that scores the clusters of an epoch on its points whose class is not known; None if the data
    set has no classes."""
    if data.labels is None:
        return None
    true = data.labels
    others = np.ones(len(true), dtype=bool) if known.labels is None else ~known.labels.known

    def observe(seen: NDArray[np.int64]) -> Mapping[str, float]:
        rows = others & (seen >= 0)
        if not rows.any():  # such as a batch of fewer points than clusters
            return {}
        found = scores(seen[rows], true[rows])
        return {f"watched_{name}": found[name] for name in WATCHED}

    return observe


def points_of_map(config: ClusterConfig, known: Known, count: int) -> NDArray[np.int64] | None:
    """Return the (n,) indices of the points of the map that a config asks for; None if it asks for none.

    They are drawn from the points without known class, of N = `count`, and depend on the seed only: runs with the same
    known points map the same points.

    Raises:
        InputError: too few points without known class.
    """
    if config.map_points is None:
        return None
    untold = np.arange(count) if known.told is None else np.flatnonzero(~known.told)
    drawn = np.sort(stream(config.seed, "map").permutation(untold)[: config.map_points])
    if len(drawn) < FEWEST:
        raise InputError(
            f"map_points={config.map_points}: only {len(drawn)} points have no known class, and a map needs {FEWEST}; "
            "leave map_points out, or give fewer labels"
        )
    return drawn


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
