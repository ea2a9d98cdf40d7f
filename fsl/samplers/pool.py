"""The samples of a split by class, from which samplers draw tasks."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.foundation.errors import InputError
from fsl.tasks import Tasks


@dataclass(frozen=True, eq=False)
class Pool:
    """The samples of a split by class.

    Attributes:
        counts: (K,) number of samples of each class.
        members: (K, largest class) indices of the samples of each class, zero-padded.
        names: names of the classes, for messages.
    """

    counts: NDArray[np.int64]
    members: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, labels: Tensor, names: tuple[str, ...] = ()) -> "Pool":
        """Group samples by their (N,) labels 0..K-1."""
        values = labels.numpy()
        counts = np.bincount(values)
        order = np.argsort(values, kind="stable")
        starts = np.cumsum(counts) - counts
        members = np.zeros((len(counts), counts.max()), dtype=np.int64)
        members[values[order], np.arange(len(order)) - starts[values[order]]] = order
        return cls(counts, members, names or tuple(str(k) for k in range(len(counts))))

    def require(self, way: int, each: int, reason: str, remedy: str) -> None:
        """Check that there are at least `way` classes, and `each` samples of every class.

        Args:
            way: number of classes.
            each: number of samples per class.
            reason: the settings that require these numbers, such as "shot=1 and query=15".
            remedy: advice, such as "lower shot or query".

        Raises:
            InputError: there are fewer; the message names the smallest class.
        """
        if way > len(self.counts):
            raise InputError(f"way={way}, but the split has only {len(self.counts)} classes; lower way")
        short = int((self.counts < each).sum())
        if short:
            worst = int(np.argmin(self.counts))
            raise InputError(
                f"{reason}: this requires {each} images of each class, but class {self.names[worst]!r} has "
                f"{self.counts[worst]} ({short} of {len(self.counts)} classes have too few); {remedy}"
            )

    def require_queries(self, classes: int, shot: int, queries: int, remedy: str) -> None:
        """Check that any `classes` classes have at least `queries` samples in total, besides `shot` of each.

        Raises:
            InputError: the smallest classes have fewer samples.
        """
        left = int(np.sort(self.counts - shot)[:classes].sum())
        if left < queries:
            raise InputError(
                f"a task has {queries} queries from {classes} classes, but the smallest {classes} classes have only "
                f"{left} images besides their support; {remedy}"
            )

    def classes(self, random: np.random.Generator, tasks: int, way: int) -> NDArray[np.int64]:
        """(tasks, way) random classes, without replacement within a task."""
        return smallest(random.random((tasks, len(self.counts))), way)

    def samples(
        self, random: np.random.Generator, classes: NDArray[np.int64], sizes: int | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """(tasks, way, largest size) random samples of each class, without replacement.

        Rows with a smaller size are padded at the end with arbitrary samples.

        Args:
            random: random number generator.
            classes: (tasks, way) classes.
            sizes: number of samples, or (tasks, way) numbers; at most the size of the class.
        """
        drawn = subset(random, self.counts[classes], np.broadcast_to(np.asarray(sizes), classes.shape))
        keys = np.where(drawn < 0, np.inf, random.random(drawn.shape))
        places = np.take_along_axis(drawn, np.argsort(keys, axis=-1), axis=-1)
        return self.members[classes[..., None], np.maximum(places, 0)]


def subset(random: np.random.Generator, counts: NDArray[np.int64], sizes: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """(…, largest size) uniformly random subsets of the integers below each of the counts (…).

    Uses Floyd's algorithm (Bentley and Floyd 1987), whose cost depends on the sizes but not on the counts. The order
    within a subset is not random; smaller subsets are padded with -1.

    Args:
        random: random number generator.
        counts: (…) upper bounds.
        sizes: size of the subsets, or (…) sizes; at most the count.
    """
    sizes = np.asarray(sizes)
    drawn = np.full((int(sizes.max()), *counts.shape), -1, dtype=np.int64)
    for i, row in enumerate(drawn):
        last = counts - sizes + i
        row[...] = random.integers(0, np.minimum(last, counts - 1), endpoint=True)
        repeated = (drawn[:i] == row).any(axis=0)
        row[repeated] = last[repeated]
        row[i >= np.broadcast_to(sizes, row.shape)] = -1
    return np.moveaxis(drawn, 0, -1)


def beside(
    ranks: NDArray[np.int64], left: NDArray[np.int64], order: NDArray[np.int64], support: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(B, Q) classes, and places within them, of the samples with these ranks among all that are no support.

    Args:
        ranks: (B, Q) ranks of samples, class by class.
        left: (B, C) number of samples of each class besides its support.
        order: (B, C) the classes, in the order of the ranks.
        support: (B, K, shot) places of the support within each class.
    """
    ends, rows = left.cumsum(axis=1), np.arange(len(ranks))[:, None]
    columns = np.minimum((ranks[..., None] >= ends[:, None, :]).sum(axis=2), left.shape[1] - 1)
    place, classes = ranks - (ends - left)[rows, columns], order[rows, columns]
    for taken in np.moveaxis(np.sort(support, axis=2)[rows, classes], 2, 0):
        place = place + (place >= taken)
    return classes, place


def assemble(
    random: np.random.Generator,
    classes: NDArray[np.int64],
    support: NDArray[np.int64],
    query: NDArray[np.int64],
    query_labels: NDArray[np.int64],
    present: NDArray[np.bool_] | None = None,
) -> Tasks:
    """Create tasks from drawn samples. The queries are shuffled, so that their order is independent of their classes.

    Args:
        random: random number generator.
        classes: (B, way) classes.
        support: (B, way, shot) samples.
        query: (B, Q) samples.
        query_labels: (B, Q) labels in 0..way-1.
        present: (B, Q) False for padded queries, which come last; None without padding.
    """
    tasks, way, shot = support.shape
    keys = random.random(query.shape)
    order = np.argsort(keys if present is None else np.where(present, keys, np.inf), axis=1)
    query, query_labels = (np.take_along_axis(part, order, axis=1) for part in (query, query_labels))
    if present is not None:
        present = np.take_along_axis(present, order, axis=1)
        query, query_labels = query * present, query_labels * present
    return Tasks(
        support=torch.from_numpy(support.reshape(tasks, -1)),
        support_labels=torch.arange(way).repeat_interleave(shot).expand(tasks, -1).contiguous(),
        query=torch.from_numpy(query),
        query_labels=torch.from_numpy(query_labels),
        classes=torch.tensor(classes),
        query_mask=None if present is None else torch.from_numpy(present),
    )


def assemble_equal(
    random: np.random.Generator, classes: NDArray[np.int64], samples: NDArray[np.int64], shot: int
) -> Tasks:
    """Create tasks with the same number of queries in each class, from (B, way, shot + query) samples of the (B, way)
    classes, support first."""
    tasks, way, size = samples.shape
    query = samples[..., shot:].reshape(tasks, -1)
    query_labels = np.broadcast_to(np.arange(way).repeat(size - shot), query.shape)
    return assemble(random, classes, samples[..., :shot], query, query_labels)


def smallest(keys: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Indices of the `size` smallest keys along the last axis, in ascending order. Keys are float64 to avoid ties,
    which argpartition breaks differently on different processors."""
    chosen = np.argpartition(keys, size - 1, axis=-1)[..., :size]
    order = np.argsort(np.take_along_axis(keys, chosen, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(chosen, order, axis=-1)
