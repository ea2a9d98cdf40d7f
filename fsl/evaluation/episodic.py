"""Evaluation of strategies on tasks. All scores derive from per-task accuracies."""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
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
from fsl.transforms import transform_features

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
    if pictures is not None and len(pictures.images) != len(bank.features):
        raise InputError(
            f"there are {len(pictures.images):,} images for {len(bank.features):,} features; are they of another split?"
        )
    predict = _predictor(_trainable(bank), strategies, torch.device(device), failures, pictures)

    def work(part: Tasks) -> dict[str, Evaluation]:
        answers = predict(strategies, part)
        audited = {
            audit: AUDITS[audit](strategies, _labels(answers), part, lambda *other: _labels(predict(*other)))
            for audit in audits
        }
        return {
            name: _scored(answer, part, bank, {audit: of[name] for audit, of in audited.items() if name in of})
            for name, answer in answers.items()
        }

    on = torch.device(device).type
    slow = any(getattr(strategy, "needs_images", False) for strategy in strategies.values())
    usual = 1 if slow else BATCHES.get(on, BATCHES["cuda"])
    scores: dict[str, list[Evaluation]] = {name: [] for name in strategies}
    sums, done = dict.fromkeys(strategies, 0.0), 0
    with progress.track("evaluating", total) as advance:
        for part, results in _each(work, _batches(blocks, batch or usual, bank), parallel=on == "cpu"):
            going = [name for name in strategies if not failures or name not in failures]
            if not going:
                return {}
            for name in going:
                scores[name].append(results[name])
                sums[name] += float(results[name].accuracies.sum())
            done += len(part)
            advance(len(part), **{name: sums[name] / done for name in going})
    return {name: Evaluation.joined(scores[name]) for name in going}


def _trainable(bank: FeatureBank) -> FeatureBank:
    """The bank with copies of tensors that were made under `torch.inference_mode`, which autograd refuses."""
    parts = {name: getattr(bank, name) for name in ("features", "labels", "base_mean", "text")}
    copies = {name: part.clone() for name, part in parts.items() if part is not None and part.is_inference()}
    return dataclasses.replace(bank, **copies) if copies else bank


class _Answer(NamedTuple):
    """Predicted labels (b, Q), steps (b,) and objectives (steps, b) of b tasks, on the CPU, and their total time."""

    labels: Tensor
    iterations: Tensor
    trace: Tensor | None
    seconds: float


def _labels(answers: Mapping[str, _Answer]) -> dict[str, Tensor]:
    return {name: answer.labels for name, answer in answers.items()}


def _predictor(
    bank: FeatureBank,
    strategies: Mapping[str, Strategy],
    device: torch.device,
    failures: dict[str, Exception] | None,
    pictures: "Pictures | None",
) -> Callable[[Mapping[str, Strategy], Tasks], dict[str, _Answer]]:
    """A function that runs some of the strategies on tasks over the bank; strategies that have failed are skipped."""
    mean = None if bank.base_mean is None else bank.base_mean.to(device)
    banks = {
        transform: transform_features(bank.features, transform, bank.base_mean).to(device)
        for transform in {strategy.transform for strategy in strategies.values()}
    }
    text = BankText.of(bank, device)

    def predict(some: Mapping[str, Strategy], tasks: Tasks) -> dict[str, _Answer]:
        shared = {
            transform: gathered(banks[transform], tasks, transform, mean, pictures, text)
            for transform in {strategy.transform for strategy in some.values()}
        }
        # CPU time: of this thread for small tasks, which use one core; of the process for large tasks.
        of_processor = time.process_time if _is_large(tasks) else time.thread_time
        clock = time.perf_counter if device.type == "cuda" else of_processor
        answers = {}
        for name, strategy in some.items():
            if failures is not None and name in failures:
                continue
            began = clock()
            try:
                found = _checked(name, strategy, shared[strategy.transform])
            except Exception as error:
                if failures is None:
                    raise
                failures[name] = error
                continue
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds, trace = clock() - began, None if found.trace is None else found.trace.cpu()
            steps = torch.zeros(len(tasks), dtype=torch.int64) if found.iterations is None else found.iterations.cpu()
            answers[name] = _Answer(found.labels.cpu(), steps, trace, seconds)
        return answers

    return predict


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
    given, steps = getattr(predictions, "probabilities", None), getattr(predictions, "iterations", None)
    if not isinstance(given, Tensor) or tuple(given.shape) != expected:
        what = f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else f"type {type(predictions).__name__}"
        raise InputError(f"strategy {name}: predict must return Predictions of shape {expected}, not of {what}")
    if not bool((given.amin() >= 0) & ((given.sum(dim=-1) - 1).abs().amax() <= 1e-3)):  # also true for NaN
        raise InputError(
            f"strategy {name}: probabilities must be at least 0 and sum to 1 over the classes, without NaN"
        )
    wrong = not isinstance(steps, Tensor) or steps.is_floating_point() or tuple(steps.shape) != expected[:1]
    if steps is not None and wrong:
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
    work: Callable[[Tasks], dict[str, Evaluation]], batches: Iterator[Tasks], *, parallel: bool
) -> Iterator[tuple[Tasks, dict[str, Evaluation]]]:
    """Apply `work` to each batch, in order.

    On the CPU, the tensors of a batch are too small for several cores, so each core processes its own batches. The
    number of batches in memory is bounded. Batches of large tasks are processed one by one, using all cores.
    """
    first = list(itertools.islice(batches, 1))
    batches, large = itertools.chain(first, batches), any(map(_is_large, first))
    if parallel and not large:
        yield from on_each_core(work, batches)
        return
    with large_buffers_returned() if large else nullcontext():
        for part in batches:
            yield part, work(part)


def _batches(blocks: Iterator[Tasks], batch: int, bank: FeatureBank) -> Iterator[Tasks]:
    """Consecutive batches; those of large tasks are limited by memory."""
    while joined := list(itertools.islice(blocks, max(1, batch // BLOCK))):
        block = concatenate(joined)
        largest = max(int(part.max()) for part in (block.support, block.query) if part.numel())
        if largest >= len(bank.features):
            raise InputError(
                f"a task has index {largest}, but the bank has {len(bank.features)} features: tasks of another split"
            )
        points = block.support.shape[1] + block.query.shape[1]
        width = max(bank.features.shape[1], block.way, 0 if _is_large(block) else points)
        at_once = max(1, min(batch, _AT_ONCE // (points * width)))
        yield from (block[first : first + at_once] for first in range(0, len(block), at_once))


def _is_large(tasks: Tasks) -> bool:
    """Whether one task can use all cores, because it has too many points for `Gram`."""
    return tasks.support.shape[1] + tasks.query.shape[1] > LARGEST_GRAM


def _scored(answer: _Answer, tasks: Tasks, bank: FeatureBank, audits: Mapping[str, Tensor]) -> Evaluation:
    """The scores of a strategy on a batch of tasks."""
    mask = torch.ones_like(tasks.query, dtype=torch.bool) if tasks.query_mask is None else tasks.query_mask
    right = (answer.labels == tasks.query_labels) & mask
    classes = bank.labels[tasks.query]
    asked, answered = (torch.bincount(classes[which], minlength=len(bank.class_names)) for which in (mask, right))
    return Evaluation(
        (right.sum(1).double() / mask.sum(1)).numpy(),
        answer.iterations.numpy(),
        ClassScores(asked.numpy(), answered.numpy()),
        bank.class_names,
        right[mask].numpy() if len(tasks) == 1 else None,
        None if answer.trace is None else answer.trace.numpy(),
        {audit: values.numpy() for audit, values in audits.items()},
        answer.seconds / len(tasks),
    )
