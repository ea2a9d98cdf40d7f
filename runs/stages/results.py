"""One evaluated config: the scores of its strategy by task and by class, and the file that stores them."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import read_arrays
from fsl.evaluation.scores import ClassScores, half_width
from runs.config.configs import EvaluateConfig
from runs.stages.lineage import short, weights_name

if TYPE_CHECKING:
    from runs.record.tracking import Tracker

PER_TASK = "per_task.npz"
AUDIT = "audit_"  # prefix of the names of audits in records and files


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a strategy on T tasks over a split of C classes.

    Attributes:
        accuracies: (T,) fraction of correct labels, one per task.
        iterations: (T,) iterations of the strategy, one per task.
        classes: correct predictions and queries by class of the split.
        class_names: (C,) names.
        query_right: (Q,) bool, whether each query was labelled correctly, if there is one task; else None.
        trace: (steps, b) objective of the first b tasks, NaN after the last iteration of a task; or None.
        audits: (T,) values by audit, see `fsl.evaluation.audits`; an audit is never the accuracy.
    """

    accuracies: NDArray[np.float64]
    iterations: NDArray[np.int64]
    classes: ClassScores
    class_names: tuple[str, ...]
    query_right: NDArray[np.bool_] | None = None
    trace: NDArray[np.floating[Any]] | None = None
    audits: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """Mean accuracy over tasks, in [0, 1]."""
        return float(self.accuracies.mean(dtype=np.float64))

    @property
    def units(self) -> str:
        """The unit over which the interval of the accuracy is computed: "tasks", or the "queries" of a single task."""
        return "tasks" if self.query_right is None else "queries"

    @property
    def by_unit(self) -> NDArray[np.float64]:
        """Accuracies of the tasks; for a single task, 1 for each correctly labelled query and 0 for the others."""
        return np.asarray(self.accuracies if self.query_right is None else self.query_right, dtype=np.float64)

    @property
    def ci95(self) -> float:
        """Half-width of the 95 % interval of the mean over the units."""
        return half_width(self.by_unit)

    def metrics(self) -> dict[str, float]:
        """Return means and intervals, by their names in the record."""
        found = {
            "accuracy": self.accuracy,
            "accuracy_ci95": self.ci95,
            "accuracy_per_class": self.classes.mean,
            "iterations_mean": float(self.iterations.mean()),
        }
        if self.units == "queries":
            found["accuracy_per_class_ci95"] = self.classes.half_width
        return found | {AUDIT + name: float(values.mean()) for name, values in self.audits.items()}

    def save(self, path: Path) -> None:
        """Write the scores to a compressed .npz file."""
        arrays = {
            "accuracies": self.accuracies,
            "iterations": self.iterations,
            "class_asked": self.classes.asked,
            "class_right": self.classes.right,
            "class_names": np.array(self.class_names),
            "query_right": self.query_right,
            "trace": self.trace,
            **{AUDIT + name: values for name, values in self.audits.items()},
        }
        present = {name: array for name, array in arrays.items() if array is not None}
        np.savez_compressed(path, **present)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> "Scores":
        """Read a file written by `save`. A damaged file raises the errors of zipfile or numpy."""
        arrays = read_arrays(path)
        return cls(
            arrays["accuracies"],
            arrays["iterations"],
            ClassScores(arrays["class_asked"], arrays["class_right"]),
            tuple(arrays["class_names"].tolist()),
            arrays.get("query_right"),
            arrays.get("trace"),
            {name.removeprefix(AUDIT): arrays[name] for name in arrays if name.startswith(AUDIT)},
        )


def recorded_scores(tracker: "Tracker", run_id: str, accuracy: float, artifacts: str = "") -> Scores:
    """Return the scores of a run by task, from the record.

    Args:
        accuracy: the accuracy recorded by the run.
        artifacts: URI of the run's files, if it is known; files on this machine are then read directly.

    Raises:
        ValueError: the scores are missing, damaged, or have another accuracy.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = tracker.download(run_id, PER_TASK, Path(folder), artifacts)
        if path is None:
            raise ValueError("missing")
        try:
            scores = Scores.load(path)
            same = math.isclose(scores.accuracy, accuracy, rel_tol=1e-6)
        except Exception as error:  # zipfile and numpy raise errors of various types
            raise ValueError("damaged") from error
    if not same:
        raise ValueError("changed")
    return scores


@dataclass(frozen=True)
class Tuned:
    """The values chosen by a tuning.

    Attributes:
        identity: identity of the tuning.
        run_id: id of the MLflow run of the tuning.
        values: values by field of the strategy.
    """

    identity: str
    run_id: str
    values: Mapping[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(Scores):
    """One evaluated config with its scores.

    Attributes:
        config: the config.
        identity: identity of the evaluation.
        run_id: id of the MLflow run of the evaluation.
        reused: whether it existed before.
        seconds_per_task: time per task in seconds, measured during the evaluation.
        tuned: the tuned values; None if there was nothing to tune.
    """

    config: EvaluateConfig
    identity: str
    run_id: str
    reused: bool
    seconds_per_task: float
    tuned: Tuned | None = None

    @property
    def settled(self) -> EvaluateConfig:
        """The evaluated config: the config with the tuned values."""
        return self.config.settled(self.tuned.values if self.tuned else {})

    def metrics(self) -> dict[str, float]:
        return super().metrics() | {"seconds_per_task": self.seconds_per_task}


def recorded_result(
    tracker: "Tracker",
    run_id: str,
    metrics: Mapping[str, float],
    artifacts: str,
    config: EvaluateConfig,
    identity: str,
    tuned: Tuned | None = None,
) -> Result:
    """Return the evaluation of a config, read from a run.

    Raises:
        ValueError, KeyError: the record of the run is incomplete.
    """
    scores = recorded_scores(tracker, run_id, metrics["accuracy"], artifacts)
    seconds = float(metrics["seconds_per_task"])
    return Result(
        **vars(scores),
        config=config,
        identity=identity,
        run_id=run_id,
        reused=True,
        seconds_per_task=seconds,
        tuned=tuned,
    )


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
