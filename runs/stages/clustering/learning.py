"""Stages of clusterings that learn features: a training is resumed, its weights and features are stored."""

import dataclasses
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.evaluation.protocol import scores
from clustering.files.regular import read_text
from clustering.foundation.errors import InputError
from clustering.foundation.progress import quiet
from clustering.foundation.streams import stream
from fsl.features.bank import FeatureBank
from runs.config.cluster import ClusterConfig
from runs.record.tracked_run import TrackedRun
from runs.stages.clustering.fitting import ClusteringStage, Fitted, Problem
from runs.stages.clustering.learned_methods import keep_method
from runs.stages.clustering.results import Trials
from runs.stages.clustering.trials import Known, fit_all
from runs.stages.points import Points
from runs.stages.stage import Workspace
from runs.storage.disk import write_text

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset

NETWORK, BANK = "network.safetensors", "features.safetensors"
Learned = tuple[Trials, Tensor]  # the single trial, and the features (N, D)
SPENT = "seconds.txt"  # seconds of a training up to its last logged values
WATCHED = ("acc_hungarian", "nmi")
"""Scores during the training, in the record as `watched_...`, for information only; no selection uses them."""
PERPLEXITY = 30.0  # scikit-learn's default
FEWEST = 10  # points of a map


class LearningRun:
    """A run with live curves, whose training may resume.

    Attributes:
        folder: its files, in a folder of the cache until the result is published.
        before: seconds of the training before an interruption.
    """

    def __init__(self, run: TrackedRun, folder: Path) -> None:
        self.run, self.folder, self.before, self._since = run, folder, 0.0, time.perf_counter()
        with suppress(OSError, ValueError):
            self.before = float(read_text(folder / SPENT))

    @property
    def seconds(self) -> float:
        """Duration of the training in seconds, with the parts before interruptions."""
        return self.before + time.perf_counter() - self._since

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Log values of a step, and store the time spent so far beside the weights."""
        self.run.metrics(values, step)
        write_text(self.folder / SPENT, f"{self.seconds:.3f}")


@dataclass(frozen=True, kw_only=True)
class LearningStage(ClusteringStage):
    """One config whose method learns features. Weights and features are files of the result."""

    more_tags = MappingProxyType({"watched": f"{', '.join(WATCHED)} along the training: nothing selects by them"})

    @abstractmethod
    def learn(self, learning: LearningRun, problem: Problem, prepared: Points, work: Workspace) -> Learned:
        """Train in the folder of `learning`, and leave the weights there in the file `NETWORK`."""

    def fit(self, run: TrackedRun, problem: Problem, points: Points, work: Workspace) -> Fitted:
        """Train, or resume an interrupted training."""
        data, config, told = points.data, self.config, problem.known.told
        mapped = points_of_map(config, problem.known, data.values.shape[0])
        learning = LearningRun(run, work.store.working(self.kind, self.key, force=work.force))
        trials, features = self.learn(learning, problem, points, work)
        labels, classes = trials.labels[0].astype(np.int64), None
        if data.labels is not None:
            classes = np.asarray(data.labels, dtype=np.int64)
        if mapped is not None:  # in the plane, so that figures need no features
            from sklearn.manifold import TSNE

            model = TSNE(perplexity=min(PERPLEXITY, (len(mapped) - 1) / 3), random_state=config.seed)
            places = np.asarray(model.fit_transform(features[mapped].numpy()), dtype=np.float32)
            true = None if classes is None else classes[mapped]
            trials = dataclasses.replace(trials, feature_map=places, mapped_classes=true)
        sizes = np.bincount(labels, minlength=problem.clusters)
        provenance = {
            "dataset": config.dataset.name,
            "network": config.network.name,
            "method": config.method.name,
            "seed": str(config.seed),
            "run": self.key,
            "labels": "clusters found" if classes is None else "classes",
            "told": "0" if told is None else str(int(told.sum())),
            "links": str(config.links or 0),
        }
        bank = FeatureBank(
            features,
            torch.from_numpy(labels if classes is None else classes),
            data.class_names if classes is not None else tuple(f"cluster {k}" for k in range(problem.clusters)),
            features.double().mean(0).float(),
            provenance,
            None if told is None else torch.from_numpy(told),
        )
        bank.save(learning.folder / BANK)
        path = work.store.cache(self.kind) / self.key / BANK
        work.progress.note(f"learned features: {path} (transduce cluster dataset=features path={path} method=kmeans)")
        tags = {"features": str(path), "sizes": " ".join(map(str, sizes))}
        return trials, {"seconds": learning.seconds, "empty_clusters": int((sizes == 0).sum())}, tags

    def save(self, content: Trials, folder: Path) -> None:
        super().save(content, folder)
        for name in (NETWORK, BANK):
            os.link(folder.with_name(f"{self.key}.partial") / name, folder / name)


@dataclass(frozen=True, kw_only=True)
class StepwiseStage(LearningStage):
    """One training of a method that learns features in steps."""

    remedy = "another penalty, more labels, or bounds nearer to the sizes that you expect"

    def learn(self, learning: LearningRun, problem: Problem, prepared: Points, work: Workspace) -> Learned:
        (clusters, known, _), (data, graphs), fitted = problem, prepared, list[Any]()
        config, folder = self.config, learning.folder
        steps = config.method.build().set_params(n_clusters=clusters).planned_steps(known.partial)
        with work.progress.track(f"training {self.name}", steps) as advance:
            watch = {"log": learning, "observe": watched_scores(data, known), "advance": advance, "folder": folder}
            trials = fit_all(config, None, data, known, graphs, clusters, quiet, given=watch, take=fitted.append)
            keep_method(folder / NETWORK, fitted[0], config.method.plugin)
        work.progress.note(
            f"learned method: {work.store.cache(self.kind) / self.key / NETWORK} (runs.stages.clustering."
            "learned_methods.learned_method of this file clusters other points)"
        )
        trials = dataclasses.replace(trials, seconds=trials.seconds + np.array([0.0, 0.0, learning.before]))
        return trials, torch.from_numpy(fitted[0].transform(data.values)).float()


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
