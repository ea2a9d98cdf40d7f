"""Strategies on tasks: per-task accuracies first, everything else derived from them."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from clustering.errors import InputError
from fsl.episodes import GatheredEpisodes, Predictions, Strategy
from fsl.features import FeatureBank
from fsl.progress import Progress, quiet
from fsl.tasks import Tasks, TaskSampler
from fsl.transforms import Transform, transform_features

BATCH = 64
"""Tasks at a time: their features stay in the processor's cache, which is faster than larger batches."""


@dataclass(frozen=True)
class Evaluation:
    """How one strategy did on T tasks.

    Attributes:
        accuracies: (T,) float64, share of each task's queries that got their true class.
        iterations: (T,) int64 steps of the strategy.
        seconds_per_task: mean time in `predict`. What strategies evaluated together share (features at hand, inner
            products) is counted for the first that needs it.
        trace: (steps, b) objective of the first batch of tasks, NaN after a task has stopped; None where the
            strategy has none.
        best_permutation: (T,) audit, see `fsl.audits`; None unless asked for.
    """

    accuracies: Tensor
    iterations: Tensor
    seconds_per_task: float
    trace: Tensor | None = None
    best_permutation: Tensor | None = None

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the tasks, a fraction."""
        return float(self.accuracies.mean())

    @property
    def ci95(self) -> float:
        """Half-width of the 95 % interval of the mean: 1.96 std / sqrt(T), with the population's std."""
        return 1.96 * float(self.accuracies.std(correction=0)) / math.sqrt(len(self.accuracies))


def evaluate(
    strategies: Mapping[str, Strategy],
    bank: FeatureBank,
    tasks: TaskSampler | Tasks,
    count: int | None = None,
    *,
    batch: int = BATCH,
    device: str | torch.device = "cpu",
    progress: Progress = quiet,
    audit: bool = False,
) -> dict[str, Evaluation]:
    """Evaluate strategies on the same tasks. Memory does not grow with the number of tasks.

    Args:
        strategies: by name. Those of one transform share the gathered features and their inner products.
        bank: features of the split that the tasks index.
        tasks: a sampler, or tasks drawn before.
        count: how many tasks; all of them where `tasks` is a list.
        batch: tasks at a time; changes no result beyond rounding.
        device: where the strategies run.
        progress: reports tasks done.
        audit: also score by best permutation.

    Raises:
        InputError: no tasks, tasks that index beyond the bank, or CL2N on a bank without base mean.
    """
    total = count if count is not None else len(tasks) if isinstance(tasks, Tasks) else 0
    if total < 1:
        raise InputError(f"the number of tasks must be at least 1, not {total}")
    banks = {s.transform: _transformed(bank, s.transform).to(device) for s in strategies.values()}
    scores = {name: _Score(total, audit) for name in strategies}
    with progress.track("evaluating", total) as advance:
        for start, part in _batches(tasks, total, batch):
            _check_range(part, bank)
            episodes = {t: GatheredEpisodes(features, part, t) for t, features in banks.items()}
            for name, strategy in strategies.items():
                began = time.perf_counter()
                predictions = strategy.predict(episodes[strategy.transform])
                labels = predictions.labels.cpu()
                scores[name].add(start, part, predictions, labels, time.perf_counter() - began)
            advance(len(part), **{name: score.mean for name, score in scores.items()})
    return {name: score.result() for name, score in scores.items()}


class _Score:
    """Collects one strategy's results, batch by batch."""

    def __init__(self, total: int, audit: bool) -> None:
        self.accuracies = torch.zeros(total, dtype=torch.float64)
        self.iterations = torch.zeros(total, dtype=torch.int64)
        self.best = torch.zeros(total, dtype=torch.float64) if audit else None
        self.trace: Tensor | None = None
        self.done, self.seconds = 0, 0.0

    def add(self, start: int, tasks: Tasks, predictions: Predictions, labels: Tensor, seconds: float) -> None:
        right = (labels == tasks.query_labels).double()
        mask = torch.ones_like(right) if tasks.query_mask is None else tasks.query_mask.double()
        span = slice(start, start + len(labels))
        self.accuracies[span] = (right * mask).sum(1) / mask.sum(1)
        self.iterations[span] = predictions.iterations.cpu()
        if self.best is not None:
            from fsl.audits import best_permutation_accuracy

            self.best[span] = best_permutation_accuracy(labels, tasks.query_labels, tasks.way)
        if start == 0 and predictions.trace is not None:
            self.trace = predictions.trace.cpu()
        self.done, self.seconds = span.stop, self.seconds + seconds

    @property
    def mean(self) -> float:
        return float(self.accuracies[: self.done].mean())

    def result(self) -> Evaluation:
        return Evaluation(self.accuracies, self.iterations, self.seconds / self.done, self.trace, self.best)


def _batches(tasks: TaskSampler | Tasks, total: int, batch: int) -> Iterator[tuple[int, Tasks]]:
    """Consecutive batches with the index of their first task."""
    start = 0
    for block in [tasks[:total]] if isinstance(tasks, Tasks) else tasks.blocks(total):
        for first in range(0, len(block), batch):
            part = block[first : first + batch]
            yield start, part
            start += len(part)


def _transformed(bank: FeatureBank, transform: Transform) -> Tensor:
    return transform_features(bank.features, transform, bank.base_mean)


def _check_range(tasks: Tasks, bank: FeatureBank) -> None:
    largest = max(int(tasks.support.max()), int(tasks.query.max()))
    if largest >= len(bank.features):
        raise InputError(
            f"a task names sample {largest}, but the bank has {len(bank.features)}: tasks of another split"
        )
