"""Estimates of durations from the newest similar runs. They are rough: the runs may be from another machine."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from runs.cache import Store
from runs.config.configs import EvaluateConfig, TrainConfig, TuneConfig
from runs.record.query import RunRow, read_runs
from runs.stages.lineage import short
from runs.track import Tracker

ALIKE = ("sampler", "sampler.way", "sampler.shot", "sampler.query", "backbone")


class Durations:
    """Estimates in seconds; None if the record has no similar run.

    The record is read at the first estimate.
    """

    def __init__(self, store: Store, tracker: Tracker) -> None:
        self._store = store
        self._tracker = tracker
        self._by_strategy: dict[str, Sequence[RunRow]] = {}

    def training(self, config: TrainConfig) -> float | None:
        """Return an estimate for a base training: the number of epochs times their duration in similar trainings.

        Similar trainings have the same backbone and benchmark.
        """
        options = config.flat()
        for run in self._trainings:
            if run.tags.get("resumed") or any(run.params.get(k) != str(options[k]) for k in ("benchmark", "backbone")):
                continue  # a resumed training records the time of its last part only
            return run.metrics["seconds"] * float(options["training.epochs"]) / float(run.params["training.epochs"])
        return None

    def extraction(self, config: TrainConfig, size: int, images: int | None) -> float | None:
        """Return an estimate for the features of `images` images, from the same backbone and image size (pixels)."""
        similar = {"backbone": config.backbone.name, "size": size}
        speeds = [noted["images_per_second"] for noted in self._extractions if similar.items() <= noted.items()]
        return images / speeds[0] if speeds and images is not None else None

    def evaluation(self, config: EvaluateConfig | TuneConfig, tasks: int) -> float | None:
        """Return an estimate for `tasks` tasks, from evaluations of the same strategy on the most similar tasks."""
        options = config.flat()
        similar = max(
            self._evaluations(short(config.strategy)),
            key=lambda run: sum(run.params.get(key) == str(options.get(key)) for key in ALIKE),
            default=None,  # in case of ties, the first is the newest
        )
        if similar is None:
            return None
        return similar.metrics["seconds_per_task"] * tasks / _cores(config.device)

    @functools.cached_property
    def _extractions(self) -> Sequence[Mapping[str, Any]]:
        return [noted for noted in self._store.facts("features") if noted.get("images_per_second")]

    @functools.cached_property
    def _trainings(self) -> Sequence[RunRow]:
        rows = read_runs(self._tracker, "train/", tags={"stage": ["checkpoint"]})
        return [row for row in rows if "seconds" in row.metrics and "training.epochs" in row.params]

    def _evaluations(self, strategy: str) -> Sequence[RunRow]:
        if strategy not in self._by_strategy:
            rows = read_runs(self._tracker, "evaluate/", tags={"stage": ["evaluation"], "strategy": [strategy]})
            self._by_strategy[strategy] = [row for row in rows if "seconds_per_task" in row.metrics]
        return self._by_strategy[strategy]


def _cores(device: str) -> int:
    """Return the number of cores that share the CPU seconds of a run; a run on a GPU records wall-clock time."""
    import torch

    from fsl.machine import resolve_device

    return torch.get_num_threads() if resolve_device(device).type == "cpu" else 1
