"""A run of the record that learns features: begun, or taken up where it was interrupted, until all of it is kept."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.evaluation.protocol import scores
from fsl.features.bank import FeatureBank
from fsl.progress import Progress
from runs.record.noted_runs import noted_run
from runs.record.tracked_run import TrackedRun
from runs.record.tracking import Tracker
from runs.stages.clustering.job import Job
from runs.stages.clustering.results import TRIALS, Trials
from runs.storage.store import Store, write_text

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels

NETWORK, BANK, NOTE, FORCED = "network.safetensors", "features.safetensors", "run.json", "forced"
SPENT = "seconds.txt"  # of the parts of a training, as far as it has curves
WATCHED = ("acc_hungarian", "nmi")
"""Scores along a training, in the record as `watched_...`: for people to look at. Nothing selects by them."""


@dataclass(frozen=True, eq=False)
class LearningRun:
    """Weights are in the store's checkpoints, what they make of the points in its features, by the run's identity.

    Attributes:
        job: what it is of.
        data: its points.
        clusters: K.
        run: of the record.
        folder: of the weights, unfinished or finished.
        finished: the weights are; what interrupted the run came after them.
        since: when it was begun or taken up.
        before: seconds of earlier parts, which an interruption ended.
    """

    job: Job
    data: "Dataset"
    clusters: int
    store: Store
    progress: Progress
    run: TrackedRun
    folder: Path
    finished: bool
    since: float
    before: float

    @classmethod
    def begun(
        cls,
        job: Job,
        data: "Dataset",
        clusters: int,
        store: Store,
        tracker: Tracker,
        progress: Progress,
        *,
        force: bool,
    ) -> "LearningRun":
        """The run that an interrupted training left, or a new one.

        Args:
            force: begin anew, whatever is there.
        """
        key = job.identity
        forced = store.cache("checkpoints") / f"{key}.partial" / FORCED  # so that one that was interrupted goes on, too
        if force and not forced.exists():
            store.partial("checkpoints", key, fresh=True)
            forced.touch()
        finished = None if forced.exists() else store.find("checkpoints", key, progress.note)
        folder = store.partial("checkpoints", key) if finished is None else finished.path
        said = f"{', '.join(WATCHED)} along the training: nothing selects by them"
        shape = data.values.shape[0], data.values.shape[1]
        run = noted_run(folder / NOTE, job.name, tracker, lambda: job.start(shape, clusters, tracker, watched=said))
        before = _spent(folder / SPENT)
        return cls(job, data, clusters, store, progress, run, folder, finished is not None, time.perf_counter(), before)

    @property
    def seconds(self) -> float:
        """Of the training, and of its earlier parts."""
        return self.before + time.perf_counter() - self.since

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Values of a training for the run's live curves; what was spent until then is noted beside the weights."""
        self.run.metrics(values, step)
        write_text(self.folder / SPENT, f"{self.seconds:.3f}")

    def keep(
        self,
        trials: Trials,
        features: Tensor,
        labels: NDArray[Any],
        told: NDArray[np.bool_] | None,
        facts: Mapping[str, Any],
        *,
        remedy: str,
    ) -> None:
        """Put all that was learned into store and record, and mark the run finished.

        Args:
            features: (N, D). labels: (N,) clusters 0..K-1.
            told: (N,) points whose class was known; what clusters the features is not judged by them.
            facts: of the weights.
            remedy: of clusters without points.
        """
        key, name = self.job.identity, self.job.name
        self._keep_bank(features, labels, told)
        with self.store.watched(), tempfile.TemporaryDirectory() as folder:
            trials.save(Path(folder) / TRIALS)
            self.run.artifact(Path(folder) / TRIALS)
        bank = self.store.cache("features") / key / BANK
        sizes = np.bincount(labels, minlength=self.clusters)
        lost = int((sizes == 0).sum())
        self.run.log(
            metrics=trials.metrics() | {"seconds": self.seconds, "trials": 1, "empty_clusters": lost},
            tags={"features": str(bank), "sizes": " ".join(map(str, sizes))},
        )
        if not self.finished:
            self.store.publish("checkpoints", key, [NETWORK], {"run": self.run.run_id, **facts})
        self.run.finish()
        for rest in ("last.ckpt", FORCED, SPENT):
            (self.store.cache("checkpoints") / key / rest).unlink(missing_ok=True)
        if lost:
            self.progress.note(f"{name}: {lost} of {self.clusters} clusters have no points; {remedy} may mend it")
        self.progress.note(f"learned features: {bank} (transduce cluster dataset=features path={bank} method=kmeans)")

    def _keep_bank(self, features: Tensor, labels: NDArray[Any], told: NDArray[np.bool_] | None) -> None:
        """As a feature bank, whose labels are the clusters where there are no classes."""
        job, store, classes = self.job, self.store, self.data.labels
        with store.lock("features", job.identity, f"the features of {job.name}", self.progress.note):
            bank = FeatureBank(
                features,
                torch.from_numpy(np.asarray(labels if classes is None else classes, dtype=np.int64)),
                tuple(f"cluster {k}" for k in range(self.clusters)) if classes is None else self.data.class_names,
                features.double().mean(0).float(),
                {
                    "dataset": job.config.dataset.name,
                    "network": job.config.network.name,
                    "method": job.config.method.name,
                    "seed": str(job.config.seed),
                    "run": job.identity,
                    "labels": "clusters found" if classes is None else "classes",
                    "told": "0" if told is None else str(int(told.sum())),
                    "links": str(job.config.links or 0),
                },
                None if told is None else torch.from_numpy(told),
            )
            partial = store.partial("features", job.identity, fresh=True)
            with store.watched():
                bank.save(partial / BANK)
            store.publish("features", job.identity, [BANK], {"run": job.identity, "points": len(features)})


def _spent(note: Path) -> float:
    """Seconds that are noted there; none where there is no note, or none that can be read."""
    with contextlib.suppress(OSError, ValueError):
        return float(note.read_text())
    return 0.0


def watched_scores(
    data: "Dataset", known: "KnownLabels | None"
) -> Callable[[NDArray[np.int64]], Mapping[str, float]] | None:
    """Scores of an epoch's clusters, of points that it saw and whose class it was not told."""
    if data.labels is None:
        return None
    true = data.labels
    others = np.ones(len(true), dtype=bool) if known is None else ~known.known

    def observe(seen: NDArray[np.int64]) -> Mapping[str, float]:
        rows = others & (seen >= 0)
        found = scores(seen[rows], true[rows])
        return {f"watched_{name}": found[name] for name in WATCHED}

    return observe
