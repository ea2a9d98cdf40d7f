"""Strategies on tasks: per-task accuracies first, everything else derived from them."""

import functools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
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
        seconds_per_task: mean time in `predict`, on one core where it ran on the CPU. What strategies evaluated
            together share (features at hand, inner products) is counted for the first that needs it.
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
    batches = _batches(tasks, total, batch, bank)
    work = functools.partial(_predict, strategies, banks)
    with progress.track("evaluating", total) as advance:
        for start, part, found in _each(work, batches, parallel=torch.device(device).type == "cpu"):
            for name, (predictions, seconds) in found.items():
                scores[name].add(start, part, predictions, seconds)
            advance(len(part), **{name: score.mean for name, score in scores.items()})
    return {name: score.result() for name, score in scores.items()}


Found = dict[str, tuple[Predictions, float]]


def _predict(strategies: Mapping[str, Strategy], banks: Mapping[Transform, Tensor], tasks: Tasks) -> Found:
    """Predictions and seconds of every strategy on one batch."""
    episodes = {transform: GatheredEpisodes(features, tasks, transform) for transform, features in banks.items()}
    found = {}
    for name, strategy in strategies.items():
        began = time.perf_counter()
        predictions = strategy.predict(episodes[strategy.transform])
        if predictions.probabilities.is_cuda:
            torch.cuda.synchronize()
        found[name] = predictions, time.perf_counter() - began
    return found


def _each(
    work: Callable[[Tasks], Found], batches: Iterator[tuple[int, Tasks]], *, parallel: bool
) -> Iterator[tuple[int, Tasks, Found]]:
    """The work done on every batch, in order.

    The tensors of a batch are too small to be shared between cores, so on the CPU each core takes batches of its own.
    A few batches are under way at once, whatever their number.
    """
    cores = torch.get_num_threads() if parallel else 1
    if cores == 1:
        for start, part in batches:
            yield start, part, work(part)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            waiting: deque[tuple[int, Tasks, Future[Found]]] = deque()
            for start, part in batches:
                waiting.append((start, part, pool.submit(work, part)))
                if len(waiting) > 2 * cores:
                    start, part, future = waiting.popleft()
                    yield start, part, future.result()
            for start, part, future in waiting:
                yield start, part, future.result()
    finally:
        torch.set_num_threads(cores)


class _Score:
    """Collects one strategy's results, batch by batch."""

    def __init__(self, total: int, audit: bool) -> None:
        self.accuracies = torch.zeros(total, dtype=torch.float64)
        self.iterations = torch.zeros(total, dtype=torch.int64)
        self.best = torch.zeros(total, dtype=torch.float64) if audit else None
        self.trace: Tensor | None = None
        self.done, self.seconds = 0, 0.0

    def add(self, start: int, tasks: Tasks, predictions: Predictions, seconds: float) -> None:
        labels = predictions.labels.cpu()
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


def _batches(tasks: TaskSampler | Tasks, total: int, batch: int, bank: FeatureBank) -> Iterator[tuple[int, Tasks]]:
    """Consecutive batches with the index of their first task."""
    start = 0
    for block in [tasks[:total]] if isinstance(tasks, Tasks) else tasks.blocks(total):
        for first in range(0, len(block), batch):
            part = block[first : first + batch]
            _check_range(part, bank)
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
