"""Strategies on tasks: per-task accuracies first, everything else derived from them."""

import functools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from clustering.errors import InputError
from fsl.episodes import Predictions, Strategy
from fsl.features import FeatureBank
from fsl.gathering import GatheredEpisodes
from fsl.progress import Progress, quiet
from fsl.tasks import Tasks, TaskSource
from fsl.transforms import Transform, transform_features

BATCH = 256
"""Tasks at a time: enough that the cost of an operation does not matter, few enough for the cache."""


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
    tasks: TaskSource | Tasks,
    count: int | None = None,
    *,
    batch: int = BATCH,
    device: str | torch.device = "cpu",
    progress: Progress = quiet,
    audit: bool = False,
) -> dict[str, Evaluation]:
    """Evaluate strategies on the same tasks. Memory does not grow with the number of tasks, but for their results.

    Not to be called from two threads at once: it sets torch's number of threads, and sets it back.

    Args:
        strategies: by name. Those of one transform share what their episodes hold, such as the inner products.
        bank: features of the split that the tasks index.
        tasks: what a sampler draws (`fsl.samplers`), or tasks drawn before.
        count: how many tasks; None: all that there are.
        batch: tasks at a time; changes no result beyond rounding.
        device: where the strategies run.
        progress: reports tasks done.
        audit: also score by best permutation.

    Raises:
        InputError: no tasks or fewer than asked for, tasks that index beyond the bank, CL2N on a bank without base
            mean, or a strategy that returns what it should not or changes its episodes.
    """
    source = tasks.source if isinstance(tasks, Tasks) else tasks
    total = count if count is not None else source.limit
    if total is None:
        raise InputError("say how many tasks: these have no end")
    blocks = source.blocks(total)
    for name, strategy in strategies.items():
        if getattr(strategy, "transform", None) not in get_args(Transform) or not callable(
            getattr(strategy, "predict", None)
        ):
            known = ", ".join(get_args(Transform))
            raise InputError(f"strategy {name}: needs a method predict and a field transform, one of {known}")
    banks = {s.transform: _transformed(bank, s.transform).to(device) for s in strategies.values()}
    scores = {name: _Score(total, audit) for name in strategies}
    batches = _batches(blocks, batch, bank)
    work = functools.partial(_predict, strategies, banks, bank.base_mean)
    with progress.track("evaluating", total) as advance:
        for start, part, found in _each(work, batches, parallel=torch.device(device).type == "cpu"):
            for name, (predictions, seconds) in found.items():
                scores[name].add(start, part, predictions, seconds)
            advance(len(part), **{name: score.mean for name, score in scores.items()})
    return {name: score.result() for name, score in scores.items()}


Found = dict[str, tuple[Predictions, float]]


def _predict(
    strategies: Mapping[str, Strategy], banks: Mapping[Transform, Tensor], base_mean: Tensor | None, tasks: Tasks
) -> Found:
    """Predictions and seconds of every strategy on one batch."""
    mean = None if base_mean is None else base_mean.to(next(iter(banks.values())).device)
    shared = {transform: GatheredEpisodes(features, tasks, transform, mean) for transform, features in banks.items()}
    found = {}
    for name, strategy in strategies.items():
        episodes = shared[strategy.transform]
        # A thread's own time on the CPU, which other threads do not lengthen.
        clock = time.perf_counter if episodes.bank.is_cuda else time.thread_time
        began = clock()
        predictions = _checked(name, strategy, episodes)
        if episodes.bank.is_cuda:
            torch.cuda.synchronize()
        found[name] = predictions, clock() - began
    return found


def _checked(name: str, strategy: Strategy, episodes: GatheredEpisodes) -> Predictions:
    """A strategy's predictions, or an error that names the strategy."""
    try:
        predictions = strategy.predict(episodes)
    except InputError as error:
        raise InputError(f"strategy {name}: {error}") from error
    except (Exception, SystemExit) as error:
        raise RuntimeError(f"strategy {name}: {type(error).__name__}: {error}") from error
    expected = (*episodes.rows.shape[:1], episodes.query_size, episodes.way)
    given = getattr(predictions, "probabilities", None)
    if not isinstance(given, Tensor) or tuple(given.shape) != expected:
        what = (
            f"probabilities of shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(predictions).__name__
        )
        raise InputError(f"strategy {name}: predict must return Predictions of shape {expected}, not {what}")
    if not bool(given.isfinite().all()):
        raise InputError(f"strategy {name}: probabilities are NaN or infinite")
    if bool((given < 0).any()) or float((given.sum(dim=-1) - 1).abs().max()) > 1e-3:
        raise InputError(f"strategy {name}: probabilities must be at least 0 and sum to 1 over the classes")
    counts = predictions.iterations
    if not isinstance(counts, Tensor) or counts.is_floating_point() or tuple(counts.shape) != expected[:1]:
        raise InputError(f"strategy {name}: iterations must be integers of shape {expected[:1]}")
    if changed := episodes.changed():
        raise InputError(
            f"strategy {name}: changes the {changed[0]} of its episodes, which others share; copy it first"
        )
    return predictions


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

            self.best[span] = best_permutation_accuracy(labels, tasks.query_labels, tasks.way, tasks.query_mask)
        if start == 0 and predictions.trace is not None:
            self.trace = predictions.trace.cpu()
        self.done, self.seconds = span.stop, self.seconds + seconds

    @property
    def mean(self) -> float:
        return float(self.accuracies[: self.done].mean())

    def result(self) -> Evaluation:
        return Evaluation(self.accuracies, self.iterations, self.seconds / self.done, self.trace, self.best)


def _batches(blocks: Iterator[Tasks], batch: int, bank: FeatureBank) -> Iterator[tuple[int, Tasks]]:
    """Consecutive batches with the index of their first task."""
    start = 0
    for block in blocks:
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
