"""The stage of a clustering that learns features: an interrupted training is resumed, and its weights are stored."""

import contextlib
import tempfile
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
from runs.record.noted_runs import noted_run
from runs.record.tracked_run import TrackedRun
from runs.record.unrecorded import Made
from runs.stages.clustering.fitting import ClusteringStage
from runs.stages.clustering.results import TRIALS, Trials
from runs.stages.points import Points
from runs.stages.stage import Begun, Workspace
from runs.storage.disk import write_text

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels

NETWORK, BANK, NOTE, FORCED = "network.safetensors", "features.safetensors", "run.json", "forced"
SPENT = "seconds.txt"  # seconds of a training up to its last logged values
WATCHED = ("acc_hungarian", "nmi")
"""Scores during the training, in the record as `watched_...`, for information only; no selection uses them."""


class Learned(NamedTuple):
    """The result of a training on the points.

    Attributes:
        features: (N, D) features.
        labels: (N,) clusters 0..K-1.
        told: (N,) mask of points with known class, which are excluded when clusterings of the features are scored.
        about: facts stored with the weights.
    """

    features: Tensor
    labels: NDArray[Any]
    told: NDArray[np.bool_] | None
    about: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LearningRun:
    """A training. Weights and features are in the store's checkpoints and features, under the identity of the stage.

    Attributes:
        run: run in the record.
        folder: folder of the weights, complete or incomplete.
        finished: whether the training is complete, so that an interrupted run only has to be recorded.
        since: time at which the training started or resumed, as `time.perf_counter()`.
        before: seconds before the last interruption.
    """

    run: TrackedRun
    folder: Path
    finished: bool
    since: float
    before: float

    @property
    def seconds(self) -> float:
        """Duration of the training in seconds, with the parts before interruptions."""
        return self.before + time.perf_counter() - self.since

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Log values to the run's live curves, and store the time spent so far beside the weights."""
        self.run.metrics(values, step)
        write_text(self.folder / SPENT, f"{self.seconds:.3f}")


@dataclass(frozen=True)
class LearningStage(ClusteringStage):
    """One config whose method learns features.

    Attributes:
        remedy: advice for clusters without points, used in a message.
    """

    remedy: ClassVar[str]

    def begin(self, prepared: Points, work: Workspace) -> Begun:
        """Resume the run of an interrupted training, or start a new run."""
        store, key, problem = work.store, self.identity, self.problem(prepared.data, work)
        forced = store.cache("checkpoints") / f"{key}.partial" / FORCED  # so that an interrupted one is resumed
        if work.force and not forced.exists():
            store.partial("checkpoints", key, fresh=True)
            forced.touch()
        finished = None if forced.exists() else store.find("checkpoints", key, work.progress.note)
        folder = store.partial("checkpoints", key) if finished is None else finished.path
        said = f"{', '.join(WATCHED)} along the training: nothing selects by them"

        def start() -> TrackedRun:
            return self.start(prepared.shape, problem.clusters, work.tracker, watched=said)

        run = noted_run(folder / NOTE, self.name, work.tracker, start)
        before = _spent(folder / SPENT)
        training = LearningRun(run, folder, finished is not None, time.perf_counter(), before)
        return Begun(run, problem._replace(training=training))

    def keep(self, made: Made[Trials], begun: Begun, work: Workspace) -> None:
        learned, problem = made.facts["learned"], begun.state
        self._keep_bank(learned, problem.clusters, made.facts["data"], work)
        if not problem.training.finished:
            about = {"run": begun.run.run_id, **learned.about}
            work.store.publish("checkpoints", self.identity, [NETWORK], about)

    def record(self, made: Made[Trials], begun: Begun, work: Workspace) -> None:
        with work.store.watched(), tempfile.TemporaryDirectory() as folder:
            made.content.save(Path(folder) / TRIALS)
            begun.run.artifact(Path(folder) / TRIALS)
        sizes = self._sizes(made, begun)
        numbers = {"seconds": begun.state.training.seconds, "trials": 1, "empty_clusters": int((sizes == 0).sum())}
        numbers |= begun.state.described
        tags = {"features": str(self._bank(work)), "sizes": " ".join(map(str, sizes))}
        begun.run.log(metrics=made.content.metrics() | numbers, tags=tags)

    def close(self, made: Made[Trials], begun: Begun, work: Workspace) -> None:
        for rest in ("last.ckpt", FORCED, SPENT):
            (work.store.cache("checkpoints") / self.identity / rest).unlink(missing_ok=True)
        sizes, bank = self._sizes(made, begun), self._bank(work)
        if lost := int((sizes == 0).sum()):
            work.progress.note(
                f"{self.name}: {lost} of {len(sizes)} clusters have no points; {self.remedy} may mend it"
            )
        work.progress.note(f"learned features: {bank} (transduce cluster dataset=features path={bank} method=kmeans)")

    def _sizes(self, made: Made[Trials], begun: Begun) -> NDArray[np.int64]:
        """Return the (K,) sizes of the clusters."""
        return np.bincount(made.facts["learned"].labels, minlength=begun.state.clusters)

    def _bank(self, work: Workspace) -> Path:
        return work.store.cache("features") / self.identity / BANK

    def _keep_bank(self, learned: Learned, clusters: int, data: "Dataset", work: Workspace) -> None:
        """Store the features as a feature bank; if the classes are unknown, its labels are the clusters."""
        store, config, classes, told = work.store, self.config, data.labels, learned.told
        with store.lock("features", self.identity, f"the features of {self.name}", work.progress.note):
            bank = FeatureBank(
                learned.features,
                torch.from_numpy(np.asarray(learned.labels if classes is None else classes, dtype=np.int64)),
                tuple(f"cluster {k}" for k in range(clusters)) if classes is None else data.class_names,
                learned.features.double().mean(0).float(),
                {
                    "dataset": config.dataset.name,
                    "network": config.network.name,
                    "method": config.method.name,
                    "seed": str(config.seed),
                    "run": self.identity,
                    "labels": "clusters found" if classes is None else "classes",
                    "told": "0" if told is None else str(int(told.sum())),
                    "links": str(config.links or 0),
                },
                None if told is None else torch.from_numpy(told),
            )
            partial = store.partial("features", self.identity, fresh=True)
            with store.watched():
                bank.save(partial / BANK)
            store.publish("features", self.identity, [BANK], {"run": self.identity, "points": len(bank.features)})


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
