"""Evaluation of strategies on tasks. All scores derive from per-task accuracies."""

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from fsl.episodes import LARGEST_GRAM, Episodes, Predictions, Strategy, check_evidence, check_strategy
from fsl.evaluation.audits import AUDITS, check_audits
from fsl.evaluation.scores import ClassScores, Evaluation
from fsl.features.bank import FeatureBank
from fsl.features.gathering import BankText, gathered, versions
from fsl.machine import large_buffers_returned
from fsl.tasks import BLOCK, Tasks, TaskSource, concatenate
from fsl.transforms import Transform, transform_features

if TYPE_CHECKING:
    from fsl.features.pictures import Pictures

BATCHES = {"cpu": 256, "cuda": 2048}
"""Default number of tasks per batch: large enough to amortise overheads, and on a CPU small enough for its cache."""

_AT_ONCE = 1 << 26
"""Maximum number of values of a batch's features, inner products or probabilities: 256 MiB each in float32."""


@torch.inference_mode(False)
def evaluate(
    strategies: Mapping[str, Strategy],
    bank: FeatureBank,
    tasks: TaskSource | Tasks,
    count: int | None = None,
    *,
    batch: int | None = None,
    device: str | torch.device = "cpu",
    progress: Progress = quiet,
    audits: Sequence[str] = (),
    failures: dict[str, Exception] | None = None,
    pictures: "Pictures | None" = None,
) -> dict[str, Evaluation]:
    """Evaluate strategies on the same tasks. Apart from the results, memory does not grow with the number of tasks.

    It may be called under `torch.inference_mode`, as in Lightning's validation; strategies that train do so there, too.
    Not thread-safe: for large tasks, the function temporarily changes a setting of the memory allocator.

    Args:
        strategies: strategies by name. Those with the same transform share computations such as inner products.
        bank: features of the split that the tasks index.
        tasks: a source of tasks from a sampler (`fsl.samplers`), or given tasks.
        count: number of tasks; None: all.
        batch: maximum number of tasks per batch, reduced for large tasks; None: chosen for the device, or 1 if a
            strategy needs images. It does not change results beyond rounding.
        device: device of the strategies.
        progress: receives the number of completed tasks.
        audits: names of `fsl.evaluation.audits.AUDITS` to compute in addition.
        failures: receives the error of each failing strategy, and the others continue; None: the first error is raised.
        pictures: the images of the bank and their network, for strategies that need images.

    Returns:
        Evaluations by name, without failed strategies.

    Raises:
        InputError: there are no tasks or fewer than `count`; tasks index beyond the bank; CL2N without base mean;
            pictures are missing or differ in number from the features; an audit does not apply to a strategy; a
            strategy returns invalid predictions or changes its episodes.
    """
    source = tasks.source if isinstance(tasks, Tasks) else tasks
    total = count if count is not None else source.limit
    if total is None:
        raise InputError("the number of tasks is unlimited; give count")
    blocks = source.blocks(total)
    for name, strategy in strategies.items():
        check_strategy(name, strategy)
        check_audits(audits, name, strategy)
    bank = _trainable(bank)
    banks = {s.transform: _transformed(bank, s.transform).to(device) for s in strategies.values()}
    if pictures is not None and len(pictures.images) != len(bank.features):
        raise InputError(
            f"there are {len(pictures.images):,} images for {len(bank.features):,} features; are they of another split?"
        )
    predictor = _Predictor(banks, bank.base_mean, failures, pictures, BankText.of(bank, device))
    scores = {name: _Score(total, bank, audits) for name in strategies}
    work = functools.partial(_work, strategies, predictor, audits)
    on = torch.device(device).type
    slow = any(getattr(strategy, "needs_images", False) for strategy in strategies.values())
    usual = 1 if slow else BATCHES.get(on, BATCHES["cuda"])
    batches = _batches(blocks, batch or usual, bank)
    with progress.track("evaluating", total) as advance:
        for start, part, results in _each(work, batches, parallel=on == "cpu"):
            going = {name: scores[name] for name in strategies if not failures or name not in failures}
            for name, score in going.items():
                score.add(start, part, results[name])
            if not going:
                return {}
            advance(len(part), **{name: score.mean for name, score in going.items()})
    return {name: score.result() for name, score in going.items()}


def _trainable(bank: FeatureBank) -> FeatureBank:
    """The bank with copies of tensors that were made under `torch.inference_mode`, which autograd refuses."""
    parts = {name: getattr(bank, name) for name in ("features", "labels", "base_mean", "text")}
    copies = {name: part.clone() for name, part in parts.items() if part is not None and part.is_inference()}
    return dataclasses.replace(bank, **copies) if copies else bank


class BatchResult(NamedTuple):
    """What is kept of a strategy's predictions for b tasks, on the CPU.

    Attributes:
        labels: (b, Q) predicted classes.
        iterations: (b,) steps.
        trace: (steps, b) objective, or None.
        seconds: total time of the tasks.
        audits: (b,) values of each audit.
    """

    labels: Tensor
    iterations: Tensor
    trace: Tensor | None
    seconds: float
    audits: Mapping[str, Tensor] = MappingProxyType({})


def _work(
    strategies: Mapping[str, Strategy], predictor: "_Predictor", audits: Sequence[str], tasks: Tasks
) -> dict[str, BatchResult]:
    """Predictions, seconds and audits of each strategy on one batch."""
    results = predictor.timed(strategies, tasks)
    labels = {name: one.labels for name, one in results.items()}
    audited = {audit: AUDITS[audit](strategies, labels, tasks, predictor) for audit in audits}
    return {
        name: one._replace(audits={audit: of[name] for audit, of in audited.items() if name in of})
        for name, one in results.items()
    }


@dataclass(frozen=True)
class _Predictor:
    """Runs strategies on batches of tasks over one bank.

    Attributes:
        banks: the features of the bank, by transform.
        base_mean: (D,) mean of the base classes, or None.
        failures: receives the errors of strategies, which are then skipped; None: errors are raised.
        pictures: the images of the bank.
        text: class names of the bank.
    """

    banks: Mapping[Transform, Tensor]
    base_mean: Tensor | None
    failures: dict[str, Exception] | None = None
    pictures: "Pictures | None" = None
    text: BankText | None = None

    def __call__(self, strategies: Mapping[str, Strategy], tasks: Tasks) -> dict[str, Tensor]:
        """(B, Q) predicted labels of each strategy."""
        return {name: result.labels for name, result in self.timed(strategies, tasks).items()}

    def timed(self, strategies: Mapping[str, Strategy], tasks: Tasks) -> dict[str, BatchResult]:
        """Predictions and seconds of each strategy."""
        device = next(iter(self.banks.values())).device
        mean = None if self.base_mean is None else self.base_mean.to(device)
        shared = {
            transform: gathered(self.banks[transform], tasks, transform, mean, self.pictures, self.text)
            for transform in {strategy.transform for strategy in strategies.values()}
        }
        results = {}
        for name, strategy in strategies.items():
            if self.failures is not None and name in self.failures:
                continue
            # CPU time: of this thread for small tasks, which use one core; of the process for large tasks.
            of_processor = time.process_time if _is_large(tasks) else time.thread_time
            clock = time.perf_counter if device.type == "cuda" else of_processor
            began = clock()
            try:
                predictions = _checked(name, strategy, shared[strategy.transform])
            except Exception as error:
                if self.failures is None:
                    raise
                self.failures[name] = error
                continue
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds, trace = clock() - began, predictions.trace
            steps = predictions.iterations
            steps = torch.zeros(len(tasks), dtype=torch.int64) if steps is None else steps.cpu()
            results[name] = BatchResult(
                predictions.labels.cpu(), steps, None if trace is None else trace.cpu(), seconds
            )
        return results


def _checked(name: str, strategy: Strategy, episodes: Episodes) -> Predictions:
    """Run a strategy and check its predictions; errors name the strategy."""
    before = versions(episodes)
    try:
        check_evidence(strategy, episodes)
        predictions = strategy.predict(episodes)
    except InputError as error:
        raise InputError(f"strategy {name}: {error}") from error
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]  # documented, but not in the stubs
        raise InputError(
            f"strategy {name}: its equations have no solution for these features ({error}); change its parameters"
        ) from error
    except (Exception, SystemExit) as error:
        raise RuntimeError(f"strategy {name}: {type(error).__name__}: {error}") from error
    expected = (len(episodes.query), episodes.query_size, episodes.way)
    given = getattr(predictions, "probabilities", None)
    if not isinstance(given, Tensor) or tuple(given.shape) != expected:
        what = (
            f"probabilities of shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(predictions).__name__
        )
        raise InputError(f"strategy {name}: predict must return Predictions of shape {expected}, not {what}")
    lowest, off = given.amin(), (given.sum(dim=-1) - 1).abs().amax()
    if not (lowest >= 0 and off <= 1e-3):  # also true for NaN
        if not bool(given.isfinite().all()):
            raise InputError(f"strategy {name}: probabilities are NaN or infinite")
        raise InputError(f"strategy {name}: probabilities must be at least 0 and sum to 1 over the classes")
    counts = predictions.iterations
    if counts is not None and (
        not isinstance(counts, Tensor) or counts.is_floating_point() or tuple(counts.shape) != expected[:1]
    ):
        raise InputError(f"strategy {name}: iterations must be integers of shape {expected[:1]}")
    after = versions(episodes)
    fresh = {"points": 0}  # products made by this strategy
    changed = [part for part, version in {**fresh, **before}.items() if after.get(part, version) != version]
    if changed:
        raise InputError(
            f"strategy {name}: changes {', '.join(changed)} of its episodes, which are shared; copy the tensor first"
        )
    return predictions


def _each(
    work: Callable[[Tasks], dict[str, BatchResult]], batches: Iterator[tuple[int, Tasks]], *, parallel: bool
) -> Iterator[tuple[int, Tasks, dict[str, BatchResult]]]:
    """Apply `work` to each batch, in order.

    On the CPU, the tensors of a batch are too small for several cores, so each core processes its own batches. The
    number of batches in memory is bounded. Batches of large tasks are processed one by one, using all cores.
    """
    first = list(itertools.islice(batches, 1))
    batches = itertools.chain(first, batches)
    large = any(_is_large(part) for _, part in first)
    if not parallel or large:
        with large_buffers_returned() if large else nullcontext():
            for start, part in batches:
                yield start, part, work(part)
        return
    for (start, part), results in on_each_core(lambda item: work(item[1]), batches):
        yield start, part, results


class _Score:
    """Accumulates the results of one strategy over batches."""

    def __init__(self, total: int, bank: FeatureBank, audits: Sequence[str]) -> None:
        self.labels, self.class_names = bank.labels, bank.class_names
        self.accuracies = torch.zeros(total, dtype=torch.float64)
        self.iterations = torch.zeros(total, dtype=torch.int64)
        self.asked, self.right = torch.zeros(2, len(bank.class_names), dtype=torch.int64)
        self.audits = {audit: torch.zeros(total, dtype=torch.float64) for audit in audits}
        self.query_right: Tensor | None = None
        self.trace: Tensor | None = None
        self.done, self.seconds = 0, 0.0

    def add(self, start: int, tasks: Tasks, results: BatchResult) -> None:
        right = results.labels == tasks.query_labels
        mask = torch.ones_like(right) if tasks.query_mask is None else tasks.query_mask
        right &= mask
        span = slice(start, start + len(right))
        self.accuracies[span] = right.sum(1).double() / mask.sum(1)
        self.iterations[span] = results.iterations
        classes = self.labels[tasks.query].flatten()
        for counts, which in ((self.asked, mask), (self.right, right)):
            counts += torch.bincount(classes, weights=which.flatten(), minlength=len(counts)).long()
        for audit, values in results.audits.items():
            self.audits[audit][span] = values
        if len(self.accuracies) == 1:
            self.query_right = right[mask]
        if start == 0:
            self.trace = results.trace
        self.done, self.seconds = span.stop, self.seconds + results.seconds

    @property
    def mean(self) -> float:
        return float(self.accuracies[: self.done].mean())

    def result(self) -> Evaluation:
        return Evaluation(
            self.accuracies.numpy(),
            self.iterations.numpy(),
            ClassScores(self.asked.numpy(), self.right.numpy()),
            self.class_names,
            None if self.query_right is None else self.query_right.numpy(),
            None if self.trace is None else self.trace.numpy(),
            {audit: values.numpy() for audit, values in self.audits.items()},
            self.seconds / self.done,
        )


def _is_large(tasks: Tasks) -> bool:
    """Whether one task can use all cores, because it has too many points for `Gram`."""
    return tasks.support.shape[1] + tasks.query.shape[1] > LARGEST_GRAM


def _batches(blocks: Iterator[Tasks], batch: int, bank: FeatureBank) -> Iterator[tuple[int, Tasks]]:
    """Consecutive batches with the index of their first task; batches of large tasks are limited by memory."""
    start = 0
    while joined := list(itertools.islice(blocks, max(1, batch // BLOCK))):
        block = concatenate(joined)
        points = block.support.shape[1] + block.query.shape[1]
        width = max(bank.features.shape[1], block.way, 0 if _is_large(block) else points)
        at_once = max(1, min(batch, _AT_ONCE // (points * width)))
        for first in range(0, len(block), at_once):
            part = block[first : first + at_once]
            _check_range(part, bank)
            yield start, part
            start += len(part)


def _transformed(bank: FeatureBank, transform: Transform) -> Tensor:
    return transform_features(bank.features, transform, bank.base_mean)


def _check_range(tasks: Tasks, bank: FeatureBank) -> None:
    largest = max(int(part.max()) for part in (tasks.support, tasks.query) if part.numel())
    if largest >= len(bank.features):
        raise InputError(
            f"a task has index {largest}, but the bank has {len(bank.features)} features: tasks of another split"
        )
