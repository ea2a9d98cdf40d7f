"""Tasks as tensors of indices: the support and query samples in a split.

Blocks of tasks are drawn from (seed, block). Task i therefore does not depend on the strategy, the batch size, the
process or the number of tasks. The samplers lie in `fsl.samplers`.
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
"""Number of tasks drawn at once. Changing it changes all tasks."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """B tasks over the samples of one split.

    Attributes:
        support: (B, S) indices of the support samples, int64; S is 0 in zero-shot tasks.
        support_labels: (B, S) in 0..way-1.
        query: (B, Q) indices of the query samples, in random order.
        query_labels: (B, Q) in 0..way-1. They are used for scoring only, and never passed to strategies.
        classes: (B, way) class in the split of each label 0..way-1.
        support_mask: (B, S) bool, False for padding; None without padding.
        query_mask: (B, Q) bool, False for padding; None without padding.
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
        """Select tasks by a slice or an index tensor."""
        return Tasks(**{name: field[index] for name, field in self._present().items()})

    @property
    def source(self) -> "TaskSource":
        """The tasks as a source of blocks."""
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
            InputError: the file is missing, truncated or not a task list; the message names the file.
        """
        tensors, _ = read_tensors(path, FORMAT, "create a task list with `transduce tasks`")
        missing = [field.name for field in fields(cls) if field.default is MISSING and field.name not in tensors]
        if missing:
            raise InputError(f"{path}: the task list lacks {', '.join(missing)}; write it again with transduce tasks")
        unknown = sorted(tensors.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise InputError(f"{path}: unknown tensors in a task list: {', '.join(unknown)}")
        tasks = cls(**tensors)
        problem = tasks._problem()
        if problem:
            raise InputError(f"{path}: {problem}")
        return tasks

    def _problem(self) -> str | None:
        """A description of the first error in the tasks, or None."""
        if self.classes.dtype != torch.int64 or self.classes.dim() != 2 or not self.classes.numel():
            return "classes must be int64 of shape (tasks, way)"
        parts = {
            "support": (self.support, self.support_labels, self.support_mask),
            "query": (self.query, self.query_labels, self.query_mask),
        }
        for name, (samples, labels, mask) in parts.items():
            if samples.dtype != torch.int64 or samples.dim() != 2 or labels.dtype != torch.int64:
                return f"{name} and {name}_labels must be int64 of the same shape (tasks, samples)"
            if samples.shape != labels.shape or len(samples) != len(self.classes):
                return f"{name} and {name}_labels must be int64 of the same shape (tasks, samples)"
            if name == "support" and not samples.shape[1]:
                continue  # zero-shot
            if not samples.shape[1]:
                return "there are no queries"
            if samples.min() < 0 or labels.min() < 0 or labels.max() >= self.way:
                return f"{name} indices must be at least 0, and labels 0..{self.way - 1}"
            if mask is not None and (mask.dtype != torch.bool or mask.shape != samples.shape):
                return f"{name}_mask must be bool of the shape of {name}"
            if mask is not None and not mask.any(dim=1).all():
                return f"task {int((~mask.any(dim=1)).nonzero()[0, 0])} has no {name}"
        if not self.support.shape[1]:
            return None
        real = torch.ones_like(self.support_labels) if self.support_mask is None else self.support_mask.long()
        support = torch.zeros_like(self.classes).scatter_add_(1, self.support_labels, real)
        if not support.all():
            return f"task {int((support == 0).nonzero()[0, 0])} has a class without support"
        both = self._in_support_and_query()
        if both.any():
            return f"task {int(both.nonzero()[0])} has a sample in both support and query"
        return None

    def _in_support_and_query(self) -> Tensor:
        """(B,) bool, whether a sample of the task is in both support and query."""
        support, query = 2 * self.support, 2 * self.query + 1
        if self.support_mask is not None:
            support = support.where(self.support_mask, -2)
        if self.query_mask is not None:
            query = query.where(self.query_mask, -2)
        # After sorting, a sample that is in both is next to itself.
        samples = torch.cat([support, query], dim=1).sort(dim=1).values
        return (samples[:, 1:] == samples[:, :-1] + 1).logical_and(samples[:, 1:] % 2 == 1).any(dim=1)


def concatenate(blocks: list[Tasks]) -> Tasks:
    """Concatenate blocks of tasks of the same shape."""
    parts = [block._present() for block in blocks]
    return Tasks(**{name: torch.cat([part[name] for part in parts]) for name in parts[0]})


@dataclass(frozen=True, eq=False)
class TaskSource:
    """Tasks that are drawn on demand, block by block.

    Attributes:
        block: function of an index that returns the tasks `index * BLOCK` to `(index + 1) * BLOCK - 1`, or to the last
            task. It is deterministic, and all blocks have the same width: tasks of different sizes are padded.
        limit: number of tasks; None if unlimited.
    """

    block: Callable[[int], Tasks]
    limit: int | None = None

    def blocks(self, tasks: int) -> Iterator[Tasks]:
        """The first `tasks` tasks, block by block.

        Raises:
            InputError: `tasks` is below 1 or above the limit.
        """
        if tasks < 1:
            raise InputError(f"the number of tasks must be at least 1, not {tasks}")
        if self.limit is not None and tasks > self.limit:
            raise InputError(f"{tasks} tasks requested, but only {self.limit} exist; set tasks={self.limit} or fewer")
        return (self.block(start // BLOCK)[: tasks - start] for start in range(0, tasks, BLOCK))

    def first(self, tasks: int) -> Tasks:
        """The first `tasks` tasks at once."""
        return concatenate(list(self.blocks(tasks)))
