"""One evaluated config: the scores of its strategy, read from the record, and its run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fsl.evaluation.scores import Evaluation
from runs.config.configs import EvaluateConfig
from runs.stages.lineage import short, weights_name

PER_TASK = "per_task.npz"


@dataclass(frozen=True)
class Tuned:
    """The values chosen by a tuning."""

    key: str  # key of the tuning
    run_id: str  # id of the MLflow run of the tuning
    values: Mapping[str, Any]  # values by field of the strategy


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(Evaluation):
    """One evaluated config: the scores of its strategy, and its run."""

    config: EvaluateConfig  # the config, in which some values may not be tuned yet
    key: str  # key of the evaluation
    run_id: str  # id of the MLflow run
    reused: bool  # whether it existed before
    tuned: Tuned | None = None  # the tuned values; None if there is nothing to tune

    @property
    def settled(self) -> EvaluateConfig:
        """The config with the tuned values."""
        return self.config.settled(self.tuned.values if self.tuned else {})


def in_common(results: Sequence[Result]) -> str:
    """Return the common values of the configs, and the number of tasks, as text."""
    first = results[0].config
    uneven = " on average" if any(result.config.sampler.plugin == "dirichlet" for result in results) else ""
    words = {"way": "-way", "shot": "-shot", "query": f" queries a class{uneven}"}

    def described(result: Result) -> list[str]:
        config, tasks = result.config, len(result.accuracies)
        network, options = f"{short(config.benchmark)}/{short(config.backbone)}", config.sampler.options
        return [
            f"features of {weights_name(first)}" if first.features is not None else network,
            f"weights {weights_name(config)}" if first.checkpoint is not None else "",
            f"on {short(config.target)}" if config.crosses else "",
            "base mean of the target" if config.base_mean == "target" else "",
            *("" if options.get(name) is None else f"{options[name]}{word}" for name, word in words.items()),
            "" if short(config.sampler) == "balanced" else short(config.sampler),
            f"{config.split} classes",
            "1 task" if tasks == 1 else f"{tasks:,} tasks",
        ]

    columns = zip(*map(described, results), strict=True)
    return ", ".join(texts[0] for texts in columns if texts[0] and len(set(texts)) == 1)
