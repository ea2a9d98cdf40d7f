"""The stage of a clustering: all trials of a method on the points of a config, as one run in the record."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clustering.evaluation.protocol import Selection
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Entry, key
from runs.config.cluster import ClusterConfig
from runs.config.overrides import write
from runs.record.tracked_run import TrackedRun
from runs.stages.clustering.results import TRIALS, Clustered, Trials
from runs.stages.clustering.selections import selection_of
from runs.stages.clustering.trials import fit_all, known_to_method
from runs.stages.lineage import short
from runs.stages.points import Points, PointsStage, Problem
from runs.stages.revisions import revisions_of
from runs.stages.stage import Computed, Workspace

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels

LOST = "another seed, more starts, fewer clusters, or other parameters of the method"
BALANCED = "balanced"  # the prior of clusters of equal size


@dataclass(frozen=True)
class ClusteringStage(PointsStage[ClusterConfig, Trials, Clustered]):
    """One config whose method is fitted to points.

    Attributes:
        selection: the trials from which labels select, and their share of labels; None: no selection by labels.
    """

    kind, noun, verb, artifacts = "clustering", "the clustering", "cluster", (TRIALS,)

    selection: Selection | None

    @classmethod
    def on(cls, config: ClusterConfig, data: str | None = None) -> Self:
        """Return the stage of a config on points with that identity; None: on the points of the config.

        Points given by identity need not exist on this machine.

        Raises:
            InputError: a wrong value, or missing files.
        """
        source: Any = config.dataset.build()
        return cls(config, source.source() if data is None else data, source, selection_for(config))

    @property
    def key(self) -> str:
        inputs = {"data": self.data, "selection": self._chosen_from}
        return key(self.kind, self.config.result_keys(), inputs, revisions_of(self.config))

    @property
    def _chosen_from(self) -> list[Any] | None:
        if self.selection is None:
            return None
        return [self.selection.trials, self.selection.share, *map(dict, self.selection.settings)]

    def read(self) -> "Dataset":
        """Read the points, in their order."""
        from clustering.datasets.dataset import check

        return check(short(self.config.dataset), self.source.read())

    def prepare(self, work: Workspace) -> Points:
        from runs.stages.clustering.shared_graphs import SharedGraphs

        if getattr(self.source, "root", None):  # reading files may take a while
            work.progress.note(f"reading {short(self.config.dataset)}")
        data = self.read()
        return Points(data, SharedGraphs(data.values, work.progress))

    def problem(self, data: "Dataset", progress: Progress = quiet) -> Problem:
        """Return the input of the method besides the points.

        Raises:
            InputError: the method does not take this input, or the input does not fit the points.
        """
        known = known_to_method(self.config, data)
        clusters = _clusters(self.config, data, known)
        _check(self.config, clusters)
        if known is not None and data.labels is not None and not known.names_all:
            progress.note(
                f"{self.name}: labels are known of {known.classes} of {len(known.class_names)} classes, and clusters "
                "of the others have no name: there is no accuracy by name, but that of the best match (ACC)"
            )
        if data.told is not None and data.labels is not None:
            progress.note(
                f"{self.name}: {int(data.told.sum()):,} points whose class the features were learned with are not "
                "judged"
            )
        return Problem(clusters, known, _described(data))

    def check(self, prepared: Points) -> None:
        self.problem(prepared.data)

    @property
    def tags(self) -> Mapping[str, Any]:
        return {**super().tags, "selected_from": tried(self.selection)}

    def compute(self, run: TrackedRun, prepared: Points, work: Workspace) -> Computed[Trials]:
        problem, (data, graphs), since = self.problem(prepared.data, work.progress), prepared, time.perf_counter()
        trials = fit_all(
            self.config, self.selection, data, problem.known, graphs, problem.clusters, work.progress, self.name
        )
        numbers = {"seconds": time.perf_counter() - since, "trials": len(trials.setting), **problem.described}
        lost = problem.clusters - int(trials.clusters[trials.chosen])
        if lost > 0 and "n_clusters" in self.config.method.build().get_params():
            work.progress.note(f"{self.name}: {lost} of {problem.clusters} clusters have no points; {LOST} may mend it")
        return self.computed(trials, prepared, problem.clusters, trials.metrics() | numbers)

    def save(self, content: Trials, folder: Path) -> None:
        content.save(folder / TRIALS)

    def load(self, entry: Entry) -> Trials:
        return Trials.load(entry.path / TRIALS)

    def found(
        self, content: Trials, run_id: str, shape: tuple[int, int], n_clusters: int, *, reused: bool
    ) -> Clustered:
        return Clustered(self.config, self.key, run_id, reused, shape, n_clusters, content)


def _described(data: "Dataset") -> dict[str, float]:
    """Return the number of points and dimensions and, if the classes are known, their number and imbalance: the size of
    the largest class divided by that of the smallest (thesis, Table 2.1)."""
    points, dimensions = data.values.shape
    if data.labels is None:
        return {"points": points, "dimensions": dimensions}
    _, sizes = np.unique(data.labels, return_counts=True)
    imbalance = float(sizes.max() / sizes.min())
    return {"points": points, "dimensions": dimensions, "classes": len(sizes), "imbalance": imbalance}


def _clusters(config: ClusterConfig, data: "Dataset", known: "KnownLabels | None") -> int:
    """Return the number of clusters."""
    names = data.class_names if known is None else known.class_names
    clusters = config.n_clusters or len(names)
    if not clusters:
        where = f"dataset {short(config.dataset)}"
        raise InputError(f"{where} has no classes that say how many clusters to find; add n_clusters=3, say")
    if known is not None and known.labels.max() >= clusters:
        raise InputError(
            f"n_clusters={clusters}: labels are known of {len(names)} classes, as {names[int(known.labels.max())]!r}; "
            f"set n_clusters to {len(names)} or more"
        )
    return clusters


def _check(config: ClusterConfig, clusters: int) -> None:
    """Check the config as far as possible before a run is started.

    Raises:
        InputError: a prior for another number of clusters; labels or pairs for a method that takes none.
    """
    from clustering.sweeps import check_takes

    method = config.method.build()
    if config.asked_labels() is not None:
        check_takes(method, "partial_labels")
    if config.links is not None:
        check_takes(method, "must_link")
    if hasattr(method, "network_objective"):
        from clustering.deep.prior import checked_prior

        checked_prior(getattr(method, "prior", BALANCED), clusters)
    if hasattr(method, "check_prior"):
        method.check_prior()


def tried(selection: Selection | None) -> str:
    """Return the settings from which labels select, as text; empty without a selection."""
    return "" if selection is None else write(tuple(map(str, map(dict, selection.settings))))


def selection_for(config: ClusterConfig) -> Selection | None:
    """Return the selection by labels; None if labels or pairs are given to the method, or it learns features."""
    informed = config.asked_labels() is not None or config.links is not None or config.coarse is not None
    return None if config.learns or informed else selection_of(config)
