"""The stage of a clustering that learns features: an interrupted training is resumed, and its weights are stored."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.evaluation.protocol import scores
from fsl.features.bank import FeatureBank
from runs.record.tracked_run import TrackedRun
from runs.stages.clustering.fitting import ClusteringStage
from runs.stages.clustering.results import Trials
from runs.stages.points import Points, Problem
from runs.stages.stage import Computed, Workspace
from runs.storage.disk import write_text

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels

NETWORK, BANK = "network.safetensors", "features.safetensors"
SPENT = "seconds.txt"  # seconds of a training up to its last logged values
WATCHED = ("acc_hungarian", "nmi")
"""Scores during the training, in the record as `watched_...`, for information only; no selection uses them."""


class Learned(NamedTuple):
    """The result of a training on the points.

    Attributes:
        features: (N, D) features.
        labels: (N,) clusters 0..K-1.
        told: (N,) mask of points with known class, which are excluded when clusterings of the features are scored.
    """

    features: Tensor
    labels: NDArray[Any]
    told: NDArray[np.bool_] | None


class LearningRun:
    """A training that may resume: its files are in a folder of the cache until the result is published.

    Args:
        run: the run in the record.
        folder: the folder.
    """

    def __init__(self, run: TrackedRun, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.before = _spent(folder / SPENT)
        self._since = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Duration of the training in seconds, with the parts before interruptions."""
        return self.before + time.perf_counter() - self._since

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Log values to the run's live curves, and store the time spent so far beside the weights."""
        self.run.metrics(values, step)
        write_text(self.folder / SPENT, f"{self.seconds:.3f}")


@dataclass(frozen=True)
class LearningStage(ClusteringStage):
    """One config whose method learns features. Weights and features are files of the result.

    Attributes:
        remedy: advice for clusters without points, used in a message.
    """

    remedy: ClassVar[str]

    @property
    def tags(self) -> Mapping[str, Any]:
        return {**super().tags, "watched": f"{', '.join(WATCHED)} along the training: nothing selects by them"}

    def compute(self, run: TrackedRun, prepared: Points, work: Workspace) -> Computed[Trials]:
        """Train, or resume an interrupted training."""
        problem = self.problem(prepared.data, work.progress)
        learning = LearningRun(run, work.store.working(self.kind, self.key, force=work.force))
        trials, learned = self.learn(learning, problem, prepared, work)
        sizes = np.bincount(learned.labels, minlength=problem.clusters)
        if lost := int((sizes == 0).sum()):
            work.progress.note(
                f"{self.name}: {lost} of {len(sizes)} clusters have no points; {self.remedy} may mend it"
            )
        with work.store.watched():
            self._bank(learned, problem.clusters, prepared.data).save(learning.folder / BANK)
        numbers = {"seconds": learning.seconds, "trials": 1, "empty_clusters": lost, **problem.described}
        bank = work.store.cache(self.kind) / self.key / BANK
        tags = {"features": str(bank), "sizes": " ".join(map(str, sizes))}
        return self.computed(trials, prepared, problem.clusters, trials.metrics() | numbers, **tags)

    def learn(
        self, learning: LearningRun, problem: Problem, prepared: Points, work: Workspace
    ) -> tuple[Trials, Learned]:
        """Train in the folder of `learning`, and leave the weights there in the file `NETWORK`."""
        raise NotImplementedError

    def save(self, content: Trials, folder: Path) -> None:
        super().save(content, folder)
        for name in (NETWORK, BANK):
            os.link(folder.with_name(f"{self.key}.partial") / name, folder / name)

    def report(self, content: Trials, work: Workspace) -> None:
        bank = work.store.cache(self.kind) / self.key / BANK
        work.progress.note(f"learned features: {bank} (transduce cluster dataset=features path={bank} method=kmeans)")

    def _bank(self, learned: Learned, clusters: int, data: "Dataset") -> FeatureBank:
        """Return the features as a feature bank; if the classes are unknown, its labels are the clusters."""
        config, classes, told = self.config, data.labels, learned.told
        return FeatureBank(
            learned.features,
            torch.from_numpy(np.asarray(learned.labels if classes is None else classes, dtype=np.int64)),
            tuple(f"cluster {k}" for k in range(clusters)) if classes is None else data.class_names,
            learned.features.double().mean(0).float(),
            {
                "dataset": config.dataset.name,
                "network": config.network.name,
                "method": config.method.name,
                "seed": str(config.seed),
                "run": self.key,
                "labels": "clusters found" if classes is None else "classes",
                "told": "0" if told is None else str(int(told.sum())),
                "links": str(config.links or 0),
            },
            None if told is None else torch.from_numpy(told),
        )


def _spent(note: Path) -> float:
    """Return the seconds stored in a file; 0 if it is missing or unreadable."""
    with contextlib.suppress(OSError, ValueError):
        return float(note.read_text())
    return 0.0


def watched_scores(
    data: "Dataset", known: "KnownLabels | None"
) -> Callable[[NDArray[np.int64]], Mapping[str, float]] | None:
    """Return a function that scores the clusters of an epoch on the points of the epoch whose class is not known.

    Returns None if the data set has no classes.
    """
    if data.labels is None:
        return None
    true = data.labels
    others = np.ones(len(true), dtype=bool) if known is None else ~known.known

    def observe(seen: NDArray[np.int64]) -> Mapping[str, float]:
        rows = others & (seen >= 0)
        if not rows.any():  # such as a batch of fewer points than clusters
            return {}
        found = scores(seen[rows], true[rows])
        return {f"watched_{name}": found[name] for name in WATCHED}

    return observe
