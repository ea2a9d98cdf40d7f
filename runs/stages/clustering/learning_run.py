"""A clustering that learns features: a training that goes on where it was interrupted, and keeps what it learned."""

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
from runs.storage.store import write_text

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels

NETWORK, BANK, NOTE, FORCED = "network.safetensors", "features.safetensors", "run.json", "forced"
SPENT = "seconds.txt"  # of the parts of a training, as far as it has curves
WATCHED = ("acc_hungarian", "nmi")
"""Scores along a training, in the record as `watched_...`: for people to look at. Nothing selects by them."""


class Learned(NamedTuple):
    """What a training made of the points.

    Attributes:
        features: (N, D).
        labels: (N,) clusters 0..K-1.
        told: (N,) points whose class was known; what clusters the features is not judged by them.
        about: facts of the weights.
    """

    features: Tensor
    labels: NDArray[Any]
    told: NDArray[np.bool_] | None
    about: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LearningRun:
    """Weights are in the store's checkpoints, what they make of the points in its features, by the run's identity.

    Attributes:
        run: of the record.
        folder: of the weights, unfinished or finished.
        finished: the weights are; what interrupted the run came after them.
        since: when it was begun or taken up.
        before: seconds of earlier parts, which an interruption ended.
    """

    run: TrackedRun
    folder: Path
    finished: bool
    since: float
    before: float

    @property
    def seconds(self) -> float:
        """Of the training, and of its earlier parts."""
        return self.before + time.perf_counter() - self.since

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Values of a training for the run's live curves; what was spent until then is noted beside the weights."""
        self.run.metrics(values, step)
        write_text(self.folder / SPENT, f"{self.seconds:.3f}")


@dataclass(frozen=True)
class LearningStage(ClusteringStage):
    """One config whose method learns features.

    Attributes:
        remedy: of clusters without points.
    """

    remedy: ClassVar[str]

    def begin(self, prepared: Points, work: Workspace) -> Begun:
        """The run that an interrupted training left, or a new one."""
        store, key, problem = work.store, self.identity, self.problem(prepared.data, work)
        forced = store.cache("checkpoints") / f"{key}.partial" / FORCED  # so that one that was interrupted goes on, too
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
        """(K,) of the clusters."""
        return np.bincount(made.facts["learned"].labels, minlength=begun.state.clusters)

    def _bank(self, work: Workspace) -> Path:
        return work.store.cache("features") / self.identity / BANK

    def _keep_bank(self, learned: Learned, clusters: int, data: "Dataset", work: Workspace) -> None:
        """As a feature bank, whose labels are the clusters where there are no classes."""
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
