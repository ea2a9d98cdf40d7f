"""The samples of a split by class: what samplers draw from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clustering.errors import InputError


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
                f"{reason} need {each} images of each class, but class {self.names[worst]!r} has "
                f"{self.counts[worst]} ({short} of {len(self.counts)} classes have too few); {remedy}"
            )

    def classes(self, random: np.random.Generator, tasks: int, way: int) -> NDArray[np.int64]:
        """(tasks, way) classes, without replacement within a task, in random order."""
        return smallest(random.random((tasks, len(self.counts))), way)

    def samples(self, random: np.random.Generator, classes: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """(tasks, way, size) samples of each class, without replacement, in random order.

        Of a class with fewer samples than `size` all come first, then what must not be used.
        """
        # A random key for each sample of each drawn class; the smallest keys are a draw without replacement.
        keys = random.random((*classes.shape, self.members.shape[1]))
        keys[np.arange(keys.shape[-1]) >= self.counts[classes][..., None]] = np.inf
        return self.members[classes[..., None], smallest(keys, size)]


def shuffled(random: np.random.Generator, *rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The arrays (tasks, n) with the entries of each row in one random order, so that the order tells nothing."""
    order = np.argsort(random.random(rows[0].shape), axis=1)
    return [np.take_along_axis(row, order, axis=1) for row in rows]


def smallest(keys: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Indices of the `size` smallest keys along the last axis, smallest first. Keys are float64, so that they do not
    tie: how argpartition breaks a tie depends on the processor."""
    chosen = np.argpartition(keys, size - 1, axis=-1)[..., :size]
    order = np.argsort(np.take_along_axis(keys, chosen, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(chosen, order, axis=-1)
