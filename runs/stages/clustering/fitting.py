"""The stage of a clustering: all trials of a method on the points of a config, as one run in the record."""

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from clustering.evaluation.protocol import Selection
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Entry
from runs.config.cluster import ClusterConfig
from runs.record.tracked_run import TrackedRun
from runs.stages.clustering.results import TRIALS, Clustered, Trials
from runs.stages.clustering.selections import selection_for
from runs.stages.clustering.trials import Known, fit_all, known_of
from runs.stages.lineage import short
from runs.stages.points import Points, PointsStage
from runs.stages.stage import Computed, Workspace

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset

Fitted = tuple[Trials, dict[str, float], dict[str, str]]  # with additional metrics and tags of the run
BALANCED = "balanced"  # the prior of clusters of equal size


@dataclass(frozen=True, kw_only=True)
class ClusteringStage(PointsStage):
    """One config whose method is fitted to points."""

    kind, artifacts, form = "clustering", (TRIALS,), Trials
    remedy = "another seed, more starts, fewer clusters, or other parameters of the method"  # for empty clusters

    # the trials from which labels select, and their share of labels; None: no selection by labels
    selection: Selection | None

    @classmethod
    def on(cls, config: ClusterConfig) -> Self:
        """Return the stage of a config; raises InputError for a wrong value or missing files."""
        own = selection_for(config)
        chosen = None if own is None else [own.trials, own.share, *map(dict, own.settings)]
        return cls(selection=own, **cls.described("cluster", config, config.result_keys(), {"selection": chosen}))

    def read(self) -> "Dataset":
        from clustering.datasets.dataset import check

        config, data = self.config, self.source.read()
        if config.encoder is not None:
            from runs.own_data.pictures import with_features

            data = with_features(data, config)
        return check(short(config.dataset), data)

    def check(self, prepared: Points) -> None:
        self.known(prepared)

    def known(self, points: Points, progress: Progress = quiet) -> Known:
        """Return what is told to the method, and the number of clusters; raises InputError if the method does not take
        it, or it does not fit the points."""
        from clustering.methods import check_takes

        config, method, data = self.config, self.config.method.build(), points.data
        given = known_of(config, data)
        known = given.labels
        names = data.class_names if known is None else known.class_names
        clusters = config.n_clusters or len(names)
        if clusters == "auto":
            clusters = max(points.graphs.number(method, config.seed).n_clusters, 0 if known is None else known.classes)
        if not clusters:
            where = f"dataset {short(config.dataset)}"
            raise InputError(
                f"{where} has no classes that say how many clusters to find; add n_clusters=3, say, or n_clusters=auto"
            )
        if known is not None and known.labels.max() >= clusters:
            raise InputError(
                f"n_clusters={clusters}: labels are known of {len(names)} classes, as "
                f"{names[int(known.labels.max())]!r}; set n_clusters to {len(names)} or more"
            )
        told = {"partial_labels": config.asked_labels(), "must_link": config.links, "coarse_labels": config.coarse}
        for parameter in (name for name, asked in told.items() if asked is not None):
            check_takes(method, parameter)
        if hasattr(method, "network_objective"):
            from clustering.deep.settings import checked_prior

            checked_prior(getattr(method, "prior", BALANCED), clusters)
        if data.labels is not None and known is not None and not known.names_all:
            progress.note(
                f"{self.name}: labels are known of {known.classes} of {len(names)} classes, and clusters of the others "
                "have no name: there is no accuracy by name, but that of the best match (ACC)"
            )
        if data.labels is not None and data.told is not None:
            told_of = f"{int(data.told.sum()):,} points whose class the features were learned with"
            progress.note(f"{self.name}: {told_of} are not judged")
        return given._replace(clusters=int(clusters))

    def compute(self, run: TrackedRun, prepared: Points, work: Workspace) -> Computed:
        known, since = self.known(prepared, work.progress), time.perf_counter()
        trials, more, tags = self.fit(run, known, prepared, work)
        if self.config.n_clusters == "auto":
            found = prepared.graphs.number(self.config.method.build(), self.config.seed)
            trials = replace(trials, contrasts=found.contrasts)
        lost = known.clusters - int(trials.clusters[trials.chosen])
        if lost > 0 and "n_clusters" in self.config.method.build().get_params():
            remedy = f"{lost} of {known.clusters} clusters have no points; {self.remedy} may mend it"
            work.progress.note(f"{self.name}: {remedy}")
        numbers = {"seconds": time.perf_counter() - since, "trials": len(trials.setting), **described(prepared.data)}
        return self.computed(trials, prepared, known.clusters, trials.metrics() | numbers | more, **tags)

    def fit(self, run: TrackedRun, known: Known, points: Points, work: Workspace) -> Fitted:
        """Return the trials."""
        return fit_all(self.config, self.selection, points.data, known, points.graphs, work.progress), {}, {}

    def result(self, content: Trials, entry: Entry, run_id: str) -> Clustered:
        return Clustered(*self.about(entry, run_id), content)


def described(data: "Dataset") -> dict[str, float]:
    """Return metrics of points: their number, dimensions and, if the classes are known, their number and imbalance: the
    size of the largest class divided by that of the smallest (thesis, Table 2.1)."""
    found: dict[str, float] = dict(zip(("points", "dimensions"), data.values.shape, strict=True))
    if data.labels is not None:
        _, sizes = np.unique(data.labels, return_counts=True)
        found |= {"classes": len(sizes), "imbalance": float(sizes.max() / sizes.min())}
    return found
