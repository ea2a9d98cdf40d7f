"""Fair clustering as a stage: methods on data sets with groups; each config has one run for all its weights."""

import copy
import dataclasses
import inspect
import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

from clustering.evaluation.protocol import random_state
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress
from clustering.methods import with_known
from fairness.methods import METHODS, UNFAIR, kind_of
from fairness.trade_off import path_weights
from runs.cache import Entry
from runs.config.fair import FairConfig
from runs.config.overrides import values
from runs.record.tracked_run import TrackedRun
from runs.stages.fair.results import PATH, FairResult, TradeOff
from runs.stages.lineage import short
from runs.stages.points import Points, PointsStage
from runs.stages.stage import Computed, Workspace


@dataclass(frozen=True, kw_only=True)
class FairStage(PointsStage):
    """One config whose method is fitted to points with groups, along its weights."""

    kind, artifacts, form = "fair", (PATH,), TradeOff

    clusters: int  # number of clusters K
    method: Any  # the built estimator with the parameters of the config

    @classmethod
    def on(cls, config: FairConfig) -> "FairStage":
        """Return the stage of a config. Data set and method are built, which checks values and that files exist."""
        method, clusters = estimator(config), config.n_clusters or getattr(config.dataset.build(), "clusters", None)
        if not clusters:
            where = f"dataset {short(config.dataset)}"
            raise InputError(f"{where} does not say how many clusters to find; add n_clusters=3, say")
        keys = config.result_keys() | {"n_clusters": int(clusters)}
        if not hasattr(method, "path"):  # it has no weights
            del keys["fairness_weight"]
        return cls(clusters=int(clusters), method=method, **cls.described("fair", config, keys, {}))

    def compute(self, run: TrackedRun, prepared: Points, work: Workspace) -> Computed:
        from sklearn.exceptions import ConvergenceWarning

        since = time.perf_counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = self._fit(prepared, work.progress)
        kinds = {str(one.message): one.category for one in said if issubclass(one.category, UserWarning)}
        for text, kind in kinds.items():
            if not issubclass(kind, ConvergenceWarning):  # which the result shows
                work.progress.note(f"{self.name}: {text}")
        numbers = found.best() | {"seconds": time.perf_counter() - since}
        return self.computed(found, prepared, self.clusters, numbers, sensitive=", ".join(prepared.data.sensitive))

    def _fit(self, points: Points, progress: Progress) -> TradeOff:
        """Return the results of the method along its weights, and the objective of the unfair method with equal
        seeds."""
        from runs.stages.clustering.shared_graphs import shares_of

        method, (data, graphs), weights = self._seeded(copy.copy(self.method)), points, self.config.fairness_weight
        graph, weighted = graphs.of(method, self.config.device), hasattr(method, "path")
        own: dict[str, Any] = {} if graph is None else {"graph": graph}
        own |= {"sensitive_features": data.sensitive} if knows_groups(type(method)) else {}
        with shares_of(progress, self.name, len(path_weights(weights)) if weighted else 1) as done:
            if weighted:
                # A path begins with the unfair solution, whatever weights are requested.
                asked = None if weights is None else sorted({0.0, *weights})
                own |= {"done": done} if "done" in inspect.signature(method.path).parameters else {}
                fitted = method.path(data.values, asked, **own)
                kept = [one for one in fitted if weights is None or one.fairness_weight in weights]
                return TradeOff.of(kept, float(fitted[0].objective_), data.sensitive)
            since, unfair = time.perf_counter(), math.nan
            method.fit(data.values, **own)
            method.seconds_ = getattr(method, "seconds_", (time.perf_counter() - since,))
            if (kind := kind_of(method)) in UNFAIR:  # with the same seeds, and the same graph if the method has one
                shared = ("n_init", "init", "normalize", "n_neighbors")
                same = {name: value for name, value in method.get_params().items() if name in shared}
                base = with_known(self._seeded(METHODS.load(UNFAIR[kind])()), **same, fairness_weight=0.0)
                graph = graph if graph is not None else graphs.of(base, self.config.device)
                unfair = float(base.fit(data.values, **({} if graph is None else {"graph": graph})).objective_)
            return TradeOff.of([method], unfair, data.sensitive)

    def _seeded(self, method: Any) -> Any:
        device, seed = self.config.device.partition(":")[0], random_state(self.config.seed, 0)
        return with_known(method, n_clusters=self.clusters, device=device, random_state=seed)

    def log(self, run: TrackedRun, content: TradeOff, entry: Entry) -> None:
        for step in range(len(content.weights)):
            run.metrics(content.metrics(step), step)

    def result(self, content: TradeOff, entry: Entry, run_id: str) -> FairResult:
        found = FairResult(*self.about(entry, run_id), kind_of(self.method), content)
        return dataclasses.replace(found, n_clusters=content.group_counts.shape[2])


def estimator(config: FairConfig) -> Any:
    """Return the method; a target given as [name: share, ...] becomes a dictionary by name of the group."""
    built, target = config.method.build(), config.method.options.get("target")
    if target is None:
        return built
    if not isinstance(target, tuple):
        raise InputError(f"target must be shares such as [0.5, 0.5] or [Female: 0.5, Male: 0.5], not {target!r}")
    if not any(isinstance(share, str) for share in target):
        return with_known(built, target=list(target))
    named: dict[Any, Any] = {}
    for share in target:
        name, colon, text = str(share).rpartition(":")
        if not colon or not name.strip() or not text.strip():
            raise InputError(f"target: {share!r} is not of the form name: share, as in [Female: 0.5, Male: 0.5]")
        named[values("target", name.strip())[0].value] = values("target", text.strip())[0].value
    return with_known(built, target=named)


def knows_groups(kind: Any) -> bool:
    """Return whether a method takes the groups; otherwise, only the fairness of its labels is measured."""
    return "sensitive_features" in inspect.signature(kind.fit).parameters
