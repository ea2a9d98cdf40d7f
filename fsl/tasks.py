"""Tasks as index tensors: which samples of a split are support and which are query.

A whole block of tasks is drawn at once from (seed, block), so task i is the same task for every strategy, every
batch size and every process, however many tasks are asked for. How they are drawn: `fsl.samplers`.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError

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

    @property
    def source(self) -> "TaskSource":
        """These very tasks, block by block."""
        return TaskSource(lambda index: self[index * BLOCK : (index + 1) * BLOCK], len(self))

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
        strange = sorted(tensors.keys() - {field.name for field in fields(cls)})
        if strange:
            raise InputError(f"{path}: a task list has no {', '.join(strange)}")
        tasks = cls(**tensors)
        problem = tasks._problem()
        if problem:
            raise InputError(f"{path}: {problem}")
        return tasks

    def _problem(self) -> str | None:
        """What is wrong with these tasks, or None."""
        if self.classes.dtype != torch.int64 or self.classes.dim() != 2 or not self.classes.numel():
            return "classes must be int64 of shape (tasks, way)"
        parts = {
            "support": (self.support, self.support_labels, self.support_mask),
            "query": (self.query, self.query_labels, self.query_mask),
        }
        for name, (samples, labels, mask) in parts.items():
            if samples.dtype != torch.int64 or samples.dim() != 2 or labels.dtype != torch.int64:
                return f"{name} and {name}_labels must be int64 of one shape (tasks, samples)"
            if samples.shape != labels.shape or len(samples) != len(self.classes) or not samples.shape[1]:
                return f"{name} and {name}_labels must be int64 of one shape (tasks, samples)"
            if samples.min() < 0 or labels.min() < 0 or labels.max() >= self.way:
                return f"{name} indices must be at least 0, and labels 0..{self.way - 1}"
            if mask is not None and (mask.dtype != torch.bool or mask.shape != samples.shape):
                return f"{name}_mask must be bool of the shape of {name}"
            if mask is not None and not mask.any(dim=1).all():
                return f"task {int((~mask.any(dim=1)).nonzero()[0, 0])} has no {name}"
        real = torch.ones_like(self.support_labels) if self.support_mask is None else self.support_mask.long()
        support = torch.zeros_like(self.classes).scatter_add_(1, self.support_labels, real)
        if not support.all():
            return f"task {int((support == 0).nonzero()[0, 0])} has a class without support"
        both = self._in_support_and_query()
        if both.any():
            return f"task {int(both.nonzero()[0])} has a sample in both support and query"
        return None

    def _in_support_and_query(self) -> Tensor:
        """(B,) bool: some sample is in both."""
        support, query = 2 * self.support, 2 * self.query + 1
        if self.support_mask is not None:
            support = support.where(self.support_mask, -2)
        if self.query_mask is not None:
            query = query.where(self.query_mask, -2)
        # Sorted, a sample that is in both stands beside itself.
        samples = torch.cat([support, query], dim=1).sort(dim=1).values
        return (samples[:, 1:] == samples[:, :-1] + 1).logical_and(samples[:, 1:] % 2 == 1).any(dim=1)


def concatenate(blocks: list[Tasks]) -> Tasks:
    """The tasks of several blocks of one shape, one after the other."""
    parts = [block._present() for block in blocks]
    return Tasks(**{name: torch.cat([part[name] for part in parts]) for name in parts[0]})


@dataclass(frozen=True, eq=False)
class TaskSource:
    """Tasks that are drawn when they are asked for, a block at a time.

    Attributes:
        block: the tasks `index * BLOCK` to `(index + 1) * BLOCK - 1`, or to the last one. Every call with an index
            gives the same tasks, and all blocks are of one width: where tasks differ in size, they are padded.
        limit: how many tasks there are; None where there is no end.
    """

    block: Callable[[int], Tasks]
    limit: int | None = None

    def blocks(self, tasks: int) -> Iterator[Tasks]:
        """The first `tasks` tasks, block by block.

        Raises:
            InputError: fewer than one, or more than there are.
        """
        if tasks < 1:
            raise InputError(f"the number of tasks must be at least 1, not {tasks}")
        if self.limit is not None and tasks > self.limit:
            raise InputError(f"{tasks} tasks are asked for, but there {_are(self.limit)}; give tasks={self.limit}")
        return (self.block(start // BLOCK)[: tasks - start] for start in range(0, tasks, BLOCK))

    def first(self, tasks: int) -> Tasks:
        """The first `tasks` tasks at once."""
        return concatenate(list(self.blocks(tasks)))


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"
