"""One evaluated config: the scores of its strategy, read from the record, and its run."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsl.evaluation.scores import Evaluation
from runs.config.configs import EvaluateConfig
from runs.record.run_folders import RunFolders
from runs.stages.lineage import short, weights_name

if TYPE_CHECKING:
    pass

PER_TASK = "per_task.npz"


def recorded_evaluation(tracker: RunFolders, run_id: str, accuracy: float, artifacts: str = "") -> Evaluation:
    """The scores of a run, read from its file in the record.

    Args:
        accuracy: accuracy of the run, to check the file.
        artifacts: URI of the files of the run, if known; files on this machine are then read in place.

    Raises:
        ValueError: the file is missing, damaged, or has another accuracy.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = tracker.download(run_id, PER_TASK, Path(folder), artifacts)
        if path is None:
            raise ValueError("missing")
        try:
            found = Evaluation.load(path)
            same = math.isclose(found.accuracy, accuracy, rel_tol=1e-6)
        except Exception as error:  # zipfile and numpy each raise their own
            raise ValueError("damaged") from error
    if not same:
        raise ValueError("changed")
    return found


@dataclass(frozen=True)
class Tuned:
    """The values chosen by a tuning.

    Attributes:
        key: key of the tuning.
        run_id: id of the MLflow run of the tuning.
        values: values by field of the strategy.
    """

    key: str
    run_id: str
    values: Mapping[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(Evaluation):
    """One evaluated config: the scores of its strategy, and its run.

    Attributes:
        config: the config, in which some values may not be tuned yet.
        key: key of the evaluation.
        run_id: id of the MLflow run.
        reused: whether it existed before.
        tuned: the tuned values; None if there is nothing to tune.
    """

    config: EvaluateConfig
    key: str
    run_id: str
    reused: bool
    tuned: Tuned | None = None

    @property
    def settled(self) -> EvaluateConfig:
        """The config with the tuned values."""
        return self.config.settled(self.tuned.values if self.tuned else {})


def in_common(results: Sequence[Result]) -> str:
    """Return the common values of the configs, and the number of tasks, as text."""
    configs = [result.config for result in results]
    parts = []
    if configs[0].features is not None:
        parts.append(f"features of {weights_name(configs[0])}")
    elif len({(config.benchmark.name, config.backbone.name) for config in configs}) == 1:
        parts.append(f"{configs[0].benchmark.name}/{configs[0].backbone.name}")
    targets = {config.crosses and short(config.target) for config in configs}
    if len(targets) == 1 and targets != {False}:
        parts.append(f"on {targets.pop()}")
    if all(config.base_mean == "target" for config in configs):
        parts.append("base mean of the target")
    shapes = [config.sampler.options for config in configs]
    uneven = " on average" if any(config.sampler.plugin == "dirichlet" for config in configs) else ""
    for name, word in (("way", "-way"), ("shot", "-shot"), ("query", f" queries a class{uneven}")):
        values = {shape.get(name) for shape in shapes}
        if len(values) == 1 and None not in values:
            parts.append(f"{values.pop()}{word}")
    samplers = {short(config.sampler) for config in configs}
    if len(samplers) == 1 and samplers != {"balanced"}:
        parts.append(samplers.pop())
    weights = {weights_name(config) for config in configs}
    if len(weights) == 1 and configs[0].checkpoint is not None:
        parts.insert(1, f"weights {weights.pop()}")
    splits = {config.split for config in configs}
    if len(splits) == 1:
        parts.append(f"{splits.pop()} classes")
    counts = {len(result.accuracies) for result in results}
    if len(counts) == 1:
        count = counts.pop()
        parts.append("1 task" if count == 1 else f"{count:,} tasks")
    return ", ".join(parts)
