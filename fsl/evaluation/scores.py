"""Scores of a strategy: accuracies over tasks, queries and classes, and the file that stores them. Without torch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import read_arrays

AUDIT = "audit_"  # prefix of an audit's name in files and in the record
NORMAL = 1.96
"""Half-width of the 95 % interval of a normal distribution, in standard errors."""


def half_width(values: NDArray[np.floating] | NDArray[np.bool_]) -> float:
    """Half-width of the 95 % interval of a mean: 1.96 std / sqrt(n), with the population standard deviation, as in
    few-shot papers."""
    return NORMAL * float(values.std(dtype=np.float64)) / math.sqrt(len(values))


def half_width_over_seeds(means: Sequence[float]) -> float:
    """Half-width of the 95 % interval of the mean over seeds (Student's t); NaN for one seed."""
    n = len(means)
    if n < 2:
        return math.nan
    from scipy.stats import t

    return float(t.ppf(0.975, n - 1)) * float(np.std(means, ddof=1)) / math.sqrt(n)


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Counts of queries by their true class, over all tasks, for the C classes of a split.

    Attributes:
        asked: (C,) int64 number of queries of each class; a query in several tasks counts each time.
        right: (C,) int64 number of correct queries of each class.
    """

    asked: NDArray[np.int64]
    right: NDArray[np.int64]

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """(C,) accuracy of each class, NaN for classes without queries."""
        with np.errstate(invalid="ignore"):
            return self.right / self.asked

    @property
    def mean(self) -> float:
        """Unweighted mean of the classes' accuracies ("Per Class" of thesis Table 4.3)."""
        return float(np.nanmean(self.accuracies))

    @property
    def half_width(self) -> float:
        """Half-width of the 95 % interval of `mean`, if each query occurs once; classes are fixed, queries are random.
        Classes whose queries are all correct, or all wrong, contribute no variance."""
        shares = self.accuracies[self.asked > 0]
        variances = shares * (1 - shares) / self.asked[self.asked > 0]
        return NORMAL * math.sqrt(float(variances.sum())) / len(shares)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of one strategy on T tasks over a split of C classes.

    Attributes:
        accuracies: (T,) fraction of correct queries in each task.
        iterations: (T,) steps of the strategy.
        classes: correct predictions by class of the split.
        class_names: C names.
        query_right: (Q,) bool, whether each query is correct, for a single task; None for several tasks.
        trace: (steps, b) objective of the first batch of tasks, NaN after a task has stopped; None without an
            objective.
        audits: (T,) values of each audit, see `fsl.evaluation.audits`.
        seconds_per_task: mean time in `predict`; on the CPU, core seconds, summed over the cores that share a large
            task. The time of shared computations (gathering features, inner products) is counted for the first strategy
            that needs them. NaN after `load`, because the file does not contain it.
    """

    accuracies: NDArray[np.float64]
    iterations: NDArray[np.int64]
    classes: ClassScores
    class_names: tuple[str, ...]
    query_right: NDArray[np.bool_] | None = None
    trace: NDArray[np.floating[Any]] | None = None
    audits: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    seconds_per_task: float = math.nan

    @staticmethod
    def joined(parts: Sequence["Evaluation"]) -> "Evaluation":
        """The evaluation of all tasks from those of consecutive batches, of which only the first keeps its trace."""
        first, tasks = parts[0], [len(part.accuracies) for part in parts]
        return Evaluation(
            np.concatenate([part.accuracies for part in parts]),
            np.concatenate([part.iterations for part in parts]),
            ClassScores(
                np.sum([part.classes.asked for part in parts], axis=0),
                np.sum([part.classes.right for part in parts], axis=0),
            ),
            first.class_names,
            first.query_right if sum(tasks) == 1 else None,
            first.trace,
            {audit: np.concatenate([part.audits[audit] for part in parts]) for audit in first.audits},
            float(np.average([part.seconds_per_task for part in parts], weights=tasks)),
        )

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the tasks, in 0..1."""
        return float(self.accuracies.mean(dtype=np.float64))

    @property
    def units(self) -> str:
        """Unit of the accuracy's interval: "tasks", or the "queries" of a single task."""
        return "tasks" if self.query_right is None else "queries"

    @property
    def by_unit(self) -> NDArray[np.float64]:
        """Accuracies of the tasks; for a single task, 1 for each correct query and 0 for the others."""
        return np.asarray(self.accuracies if self.query_right is None else self.query_right, dtype=np.float64)

    @property
    def ci95(self) -> float:
        """Half-width of the 95 % interval of the mean over tasks, or over the queries of a single task."""
        return half_width(self.by_unit)

    def metrics(self) -> dict[str, float]:
        """Means and intervals, by their names in the record."""
        values = {
            "accuracy": self.accuracy,
            "accuracy_ci95": self.ci95,
            "accuracy_per_class": self.classes.mean,
            "iterations_mean": float(self.iterations.mean()),
        }
        if self.units == "queries":
            values["accuracy_per_class_ci95"] = self.classes.half_width
        values |= {AUDIT + name: float(audited.mean()) for name, audited in self.audits.items()}
        return values | {"seconds_per_task": self.seconds_per_task}

    def save(self, path: Path) -> None:
        """Write the scores to a compressed file; `path` ends in .npz."""
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

    @staticmethod
    def load(path: Path) -> "Evaluation":
        """Read a file written by `save`. If it is damaged, zipfile or numpy raise their own errors."""
        arrays = read_arrays(path)
        return Evaluation(
            arrays["accuracies"],
            arrays["iterations"],
            ClassScores(arrays["class_asked"], arrays["class_right"]),
            tuple(arrays["class_names"].tolist()),
            arrays.get("query_right"),
            arrays.get("trace"),
            {name.removeprefix(AUDIT): arrays[name] for name in arrays if name.startswith(AUDIT)},
        )
