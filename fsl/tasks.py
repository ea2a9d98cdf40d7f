"""Tasks as index tensors: which samples of a split are support and which are query.

A whole block of tasks is drawn at once from (seed, block), so task i is the same task for every strategy, every
batch size and every process, however many tasks are asked for.
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.errors import InputError
from clustering.streams import stream
from fsl.tensor_files import read_tensors, write_tensors

FORMAT = "transduce tasks 1"
BLOCK = 256
"""Tasks drawn at once. Part of what defines task i: changing it changes every task list."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """B tasks over the samples of one split.

    Attributes:
        support: (B, S) indices of the support samples, int64.
        support_labels: (B, S) in 0..way-1.
        query: (B, Q) indices of the query samples, in random order.
        query_labels: (B, Q) in 0..way-1. Only the scorer reads them; a strategy never does.
        classes: (B, way) the split's class of each position 0..way-1.
        support_mask: (B, S) bool, False where padded; None where every task is full.
        query_mask: (B, Q) bool, likewise.
    """

    support: Tensor
    support_labels: Tensor
    query: Tensor
    query_labels: Tensor
    classes: Tensor
    support_mask: Tensor | None = None
    query_mask: Tensor | None = None

    @property
    def way(self) -> int:
        return self.classes.shape[1]

    def __len__(self) -> int:
        return len(self.query)

    def __getitem__(self, index: slice | Tensor) -> "Tasks":
        """The tasks of a slice or an index tensor."""
        return Tasks(**{name: field[index] for name, field in self._present().items()})

    def _present(self) -> dict[str, Tensor]:
        return {name: field for name, field in vars(self).items() if field is not None}

    def save(self, path: Path) -> None:
        """Write the tasks to a safetensors file."""
        write_tensors(path, self._present(), {"format": FORMAT})

    @classmethod
    def load(cls, path: Path) -> "Tasks":
        """Read tasks written by `save`.

        Raises:
            InputError: names the file: missing, truncated, or no task list.
        """
        tensors, _ = read_tensors(path, FORMAT, "`transduce tasks` writes a task list")
        missing = [field.name for field in fields(cls) if field.default is MISSING and field.name not in tensors]
        if missing:
            raise InputError(f"{path}: the task list lacks {', '.join(missing)}")
        tasks = cls(**tensors)
        problem = tasks._problem()
        if problem:
            raise InputError(f"{path}: {problem}")
        return tasks

    def _problem(self) -> str | None:
        """What is wrong with these tasks, or None."""
        pairs = {"support": (self.support, self.support_labels), "query": (self.query, self.query_labels)}
        for name, (samples, labels) in pairs.items():
            if samples.dtype != torch.int64 or samples.dim() != 2 or samples.shape != labels.shape or not len(samples):
                return f"{name} and {name}_labels must be int64 of one shape (tasks, samples)"
            if samples.min() < 0 or labels.min() < 0 or labels.max() >= self.way:
                return f"{name} indices must be at least 0, and labels 0..{self.way - 1}"
        present = torch.zeros_like(self.classes).scatter_(1, self.support_labels, 1)
        if not present.all():
            return f"task {int((present == 0).nonzero()[0, 0])} has a class without support"
        both = (self.support[:, :, None] == self.query[:, None, :]).flatten(1).any(dim=1)
        if both.any():
            return f"task {int(both.nonzero()[0])} has a sample in both support and query"
        return None


def concatenate(blocks: list[Tasks]) -> Tasks:
    """The tasks of several blocks of one shape, one after the other."""
    parts = [block._present() for block in blocks]
    return Tasks(**{name: torch.cat([part[name] for part in parts]) for name in parts[0]})


@dataclass(frozen=True)
class TaskSampler:
    """Draws balanced tasks: `way` classes, for each `shot` support and `query` query samples, all without replacement.

    Attributes:
        labels: (N,) class of each sample of the split, 0..K-1.
        way: classes per task, K-way.
        shot: support samples per class.
        query: query samples per class.
        seed: tasks of different seeds are independent.
        class_names: for messages only.

    Raises:
        InputError: fewer classes than `way`, or a class with fewer samples than `shot + query`.
    """

    labels: Tensor
    way: int = 5
    shot: int = 1
    query: int = 15
    seed: int = 0
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("way", "shot", "query"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        counts = self._counts
        if self.way > len(counts):
            raise InputError(f"way={self.way} but the split has only {len(counts)} classes; set way to at most that")
        needed = self.shot + self.query
        short = np.flatnonzero(counts < needed)
        if len(short):
            worst = int(short[np.argmin(counts[short])])
            name = self.class_names[worst] if self.class_names else str(worst)
            raise InputError(
                f"shot={self.shot} and query={self.query} need {needed} images of each class, but class {name!r} has "
                f"{counts[worst]} ({len(short)} of {len(counts)} classes have too few); lower shot or query"
            )

    def block(self, index: int) -> Tasks:
        """Tasks `index * BLOCK` to `(index + 1) * BLOCK - 1`."""
        random = stream(self.seed, "tasks", self.way, self.shot, self.query, index)
        classes = _draw(random, BLOCK, len(self._counts), self.way)
        # A random key for each sample of each drawn class; the smallest keys are a draw without replacement.
        keys = random.random((BLOCK, self.way, self._members.shape[1]))
        keys[np.arange(keys.shape[2]) >= self._counts[classes][..., None]] = np.inf
        drawn = _smallest(keys, self.shot + self.query)
        samples = np.take_along_axis(self._members[classes], drawn, axis=2)
        support, query = samples[..., : self.shot], samples[..., self.shot :]
        positions = np.arange(self.way)
        # Shuffled, so that the order of the queries tells nothing about their classes.
        order = np.argsort(random.random((BLOCK, self.way * self.query)), axis=1)
        query_labels = np.broadcast_to(np.repeat(positions, self.query), order.shape)
        return Tasks(
            support=torch.from_numpy(support.reshape(BLOCK, -1)),
            support_labels=torch.from_numpy(np.repeat(positions, self.shot)).expand(BLOCK, -1),
            query=torch.from_numpy(np.take_along_axis(query.reshape(BLOCK, -1), order, axis=1)),
            query_labels=torch.from_numpy(np.take_along_axis(query_labels, order, axis=1)),
            classes=torch.from_numpy(classes),
        )

    def blocks(self, tasks: int) -> Iterator[Tasks]:
        """The first `tasks` tasks, block by block."""
        for start in range(0, tasks, BLOCK):
            yield self.block(start // BLOCK)[: tasks - start]

    def first(self, tasks: int) -> Tasks:
        """The first `tasks` tasks at once."""
        return concatenate(list(self.blocks(tasks)))

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.bincount(self.labels.numpy())

    @cached_property
    def _members(self) -> NDArray[np.int64]:
        """(K, largest class) indices of the samples of each class, zero-padded."""
        labels = self.labels.numpy()
        order = np.argsort(labels, kind="stable")
        starts = np.cumsum(self._counts) - self._counts
        members = np.zeros((len(self._counts), self._counts.max()), dtype=np.int64)
        members[labels[order], np.arange(len(order)) - starts[labels[order]]] = order
        return members


def _draw(random: np.random.Generator, rows: int, population: int, size: int) -> NDArray[np.int64]:
    """(rows, size) integers below `population`, without replacement within a row, in random order."""
    return _smallest(random.random((rows, population)), size)


def _smallest(keys: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Indices of the `size` smallest keys along the last axis, smallest first. Keys are float64, so that they do not
    tie: how argpartition breaks a tie depends on the processor."""
    chosen = np.argpartition(keys, size - 1, axis=-1)[..., :size]
    order = np.argsort(np.take_along_axis(keys, chosen, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(chosen, order, axis=-1)
