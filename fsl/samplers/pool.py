"""The samples of a split by class: what samplers draw from."""

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
        counts: (K,) samples of each class.
        members: (K, largest class) indices of the samples of each class, zero-padded.
        names: of the classes, for messages.
    """

    counts: NDArray[np.int64]
    members: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, labels: Tensor, names: tuple[str, ...] = ()) -> "Pool":
        """Of (N,) labels 0..K-1."""
        given = labels.numpy()
        counts = np.bincount(given)
        order = np.argsort(given, kind="stable")
        starts = np.cumsum(counts) - counts
        members = np.zeros((len(counts), counts.max()), dtype=np.int64)
        members[given[order], np.arange(len(order)) - starts[given[order]]] = order
        return cls(counts, members, names or tuple(str(k) for k in range(len(counts))))

    def require(self, way: int, each: int, reason: str, remedy: str) -> None:
        """That there are `way` classes, and `each` samples of every class.

        Args:
            reason: the settings that need so many, such as "shot=1 and query=15".
            remedy: what to do about it, such as "lower shot or query".

        Raises:
            InputError: there are fewer; names the smallest class.
        """
        if way > len(self.counts):
            raise InputError(f"way={way} but the split has only {len(self.counts)} classes; set way to at most that")
        short = int((self.counts < each).sum())
        if short:
            worst = int(np.argmin(self.counts))
            raise InputError(
                f"{reason}: that takes {each} images of each class, but class {self.names[worst]!r} has "
                f"{self.counts[worst]} ({short} of {len(self.counts)} classes have too few); {remedy}"
            )

    def require_queries(self, classes: int, shot: int, queries: int, remedy: str) -> None:
        """That any `classes` classes have `queries` samples in all, besides `shot` of each.

        Raises:
            InputError: the smallest classes have fewer.
        """
        left = int(np.sort(self.counts - shot)[:classes].sum())
        if left < queries:
            raise InputError(
                f"a task has {queries} queries of {classes} classes, but the smallest {classes} classes have only "
                f"{left} images besides their support; {remedy}"
            )

    def classes(self, random: np.random.Generator, tasks: int, way: int) -> NDArray[np.int64]:
        """(tasks, way) classes, without replacement within a task, in random order."""
        return smallest(random.random((tasks, len(self.counts))), way)

    def samples(
        self, random: np.random.Generator, classes: NDArray[np.int64], sizes: int | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """(tasks, way, largest size) samples of each class, without replacement, in random order.

        Of a class of which fewer are asked for, those come first, then what must not be used.

        Args:
            sizes: how many, or (tasks, way) of it; at most what the class has.
        """
        drawn = subset(random, self.counts[classes], np.broadcast_to(np.asarray(sizes), classes.shape))
        keys = np.where(drawn < 0, np.inf, random.random(drawn.shape))
        places = np.take_along_axis(drawn, np.argsort(keys, axis=-1), axis=-1)
        return self.members[classes[..., None], np.maximum(places, 0)]


def subset(random: np.random.Generator, counts: NDArray[np.int64], sizes: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """(…, largest size) whole numbers below each of the counts (…), without replacement, every set equally likely.

    Floyd's algorithm (Bentley and Floyd 1987): as many random numbers as are drawn, however many there are to draw
    from. The order within a set is not random; -1 where a set is smaller than the largest.

    Args:
        counts: (…).
        sizes: of the sets, or (…) of it; none above its count.
    """
    sizes = np.asarray(sizes)
    drawn = np.full((int(sizes.max()), *counts.shape), -1, dtype=np.int64)
    for i, row in enumerate(drawn):
        last = counts - sizes + i
        row[...] = random.integers(0, np.minimum(last, counts - 1), endpoint=True)
        again = (drawn[:i] == row).any(axis=0)
        row[again] = last[again]
        row[i >= np.broadcast_to(sizes, row.shape)] = -1
    return np.moveaxis(drawn, 0, -1)


def assemble(
    random: np.random.Generator,
    classes: NDArray[np.int64],
    support: NDArray[np.int64],
    query: NDArray[np.int64],
    query_labels: NDArray[np.int64],
    given: NDArray[np.bool_] | None = None,
) -> Tasks:
    """Tasks of what was drawn. The queries are shuffled, so that their order tells nothing about their classes.

    Args:
        classes: (B, way).
        support: (B, way, shot) samples.
        query: (B, Q) samples.
        query_labels: (B, Q) in 0..way-1.
        given: (B, way, shot) bool, False where there is no support sample; None where all are there.
    """
    tasks, way, shot = support.shape
    support_labels = np.empty_like(support)
    support_labels[:] = np.arange(way)[:, None]
    if given is not None:
        support, support_labels = np.where(given, support, 0), np.where(given, support_labels, 0)
    order = np.argsort(random.random(query.shape), axis=1)
    return Tasks(
        support=torch.from_numpy(support.reshape(tasks, -1)),
        support_labels=torch.from_numpy(support_labels.reshape(tasks, way * shot)),
        query=torch.from_numpy(np.take_along_axis(query, order, axis=1)),
        query_labels=torch.from_numpy(np.take_along_axis(query_labels, order, axis=1)),
        classes=torch.from_numpy(classes),
        support_mask=None if given is None else torch.from_numpy(given.reshape(tasks, -1)),
    )


def assemble_equal(
    random: np.random.Generator,
    classes: NDArray[np.int64],
    samples: NDArray[np.int64],
    shot: int,
    given: NDArray[np.bool_] | None = None,
) -> Tasks:
    """Tasks with equally many queries of every class.

    Args:
        classes: (B, way).
        samples: (B, way, shot + query): of each class its support, then its queries.
        shot: how many of them are support.
        given: as of `assemble`.
    """
    tasks, way, size = samples.shape
    query = samples[..., shot:].reshape(tasks, -1)
    query_labels = np.broadcast_to(np.arange(way).repeat(size - shot), query.shape)
    return assemble(random, classes, samples[..., :shot], query, query_labels, given)


def smallest(keys: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Indices of the `size` smallest keys along the last axis, smallest first. Keys are float64, so that they do not
    tie: how argpartition breaks a tie depends on the processor."""
    chosen = np.argpartition(keys, size - 1, axis=-1)[..., :size]
    order = np.argsort(np.take_along_axis(keys, chosen, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(chosen, order, axis=-1)
