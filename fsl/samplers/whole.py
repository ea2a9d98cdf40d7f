"""Samplers that use every sample of a split once, or the tasks of a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Validated, Within
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool
from fsl.tasks import BLOCK, Tasks, TaskSource


@dataclass(frozen=True)
class WholeSplit(Validated):
    """One task with all classes and samples of the split: a fraction of each class is support, the rest are queries.
    This is the protocol for iNat in the thesis (section 4.3).

    A class of n samples has max(1, floor(n * support_share)) support samples. They are chosen at random, or are the
    first of each class: `benchmark=inat` lists the support of its authors' division first.

    Attributes:
        support_share: fraction of each class's samples that are support, between 0 and 1; 0.2 in the papers.
        support: "random", or "first" in the order of the benchmark, independent of the seed.
    """

    support_share: Annotated[float, Above(0), Within(0, 1)] = 0.2
    support: Literal["random", "first"] = "random"

    @property
    def label(self) -> str:
        return f"whole split {self.support_share:g}{' first' if self.support == 'first' else ''}"

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """The one task over the samples of a split.

        Raises:
            InputError: the split has one class, or a class has no query.
        """
        pool = Pool.of(labels, class_names)
        if len(pool.counts) < 2:
            raise InputError("the split has only one class, but a task needs two; use another split")
        # Round first, so that a fifth of 5 samples is 1 despite floating-point errors.
        shots = np.maximum(np.floor(np.round(pool.counts * self.support_share, 9)).astype(np.int64), 1)
        pool.require(2, 2, f"support_share={self.support_share:g}", "remove such classes from the benchmark")
        if (shots >= pool.counts).any():
            name = pool.names[int(np.argmax(shots >= pool.counts))]
            raise InputError(
                f"support_share={self.support_share:g} leaves class {name!r} without queries; lower support_share"
            )

        def whole(index: int) -> Tasks:
            random = stream(seed, "whole split task", repr(float(self.support_share)))
            keys = random.random(len(labels)) if self.support == "random" else np.arange(len(labels))
            order = np.lexsort((keys, labels.numpy()))  # class by class
            place = np.arange(len(order)) - np.repeat(pool.counts.cumsum() - pool.counts, pool.counts)
            is_support = place < np.repeat(shots, pool.counts)
            support, query = order[is_support], random.permutation(order[~is_support])
            return Tasks(
                support=torch.from_numpy(support)[None],
                support_labels=labels[support][None],
                query=torch.from_numpy(query)[None],
                query_labels=labels[query][None],
                classes=torch.arange(len(pool.counts))[None],
            )

        return TaskSource(whole, limit=1)


@dataclass(frozen=True)
class Batches(Validated):
    """Consecutive batches of a stream that contains every sample of the split once. All classes are named; there is no
    support.

    Each class is distributed over the batches with proportions from a symmetric Dirichlet distribution (Gong et al.
    2022, NOTE). The smaller its concentration, the fewer classes a batch has.

    Attributes:
        size: number of queries of a batch; the last one may have fewer.
        concentration: concentration of the Dirichlet distribution; 0: one class after another, in random order.
    """

    size: Annotated[int, AtLeast(1)] = 128
    concentration: Annotated[float, AtLeast(0)] = 0.1

    @property
    def label(self) -> str:
        return f"batches of {self.size} {self.concentration:g}"

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """The batches of the stream.

        Raises:
            InputError: the split has one class.
        """
        pool = Pool.of(labels, class_names)
        pool.require(2, 1, "a stream", "remove empty classes")
        number, ways = -(-len(labels) // self.size), len(pool.counts)
        order = self._order(labels.numpy(), pool, number, seed)
        rows = np.pad(order, (0, number * self.size - len(order)), constant_values=-1).reshape(number, self.size)

        def block(index: int) -> Tasks:
            part = torch.from_numpy(rows[index * BLOCK : (index + 1) * BLOCK])
            none = torch.empty(len(part), 0, dtype=torch.int64)
            query = part.clamp_min(0)
            classes = torch.arange(ways).expand(len(part), -1).contiguous()
            return Tasks(none, none, query, torch.where(part >= 0, labels[query], 0), classes, query_mask=part >= 0)

        return TaskSource(block, limit=number)

    def _order(self, labels: np.ndarray, pool: Pool, number: int, seed: int) -> np.ndarray:
        """(N,) the samples in the order of the stream."""
        random = stream(seed, "batches", self.size, repr(float(self.concentration)))
        if self.concentration == 0:
            position = random.permutation(len(pool.counts))[labels]
        else:
            shares = random.gamma(self.concentration, size=(len(pool.counts), number)).clip(1e-300)
            ends = (shares / shares.sum(axis=1, keepdims=True)).cumsum(axis=1)
            ends[:, -1] = 1.0
            classes = np.arange(len(ends))[:, None]
            position = np.searchsorted((ends + classes).ravel(), labels + random.random(len(labels))) - labels * number
        return np.lexsort((random.random(len(labels)), position))


@dataclass(frozen=True)
class File(Validated):
    """Use the tasks of a file, written by `transduce tasks` or another program, in its order.

    Attributes:
        path: a file of tasks in the format of `fsl.tasks.Tasks.save`. Its content is part of a run's identity; its path
            is not.
    """

    path: str

    @property
    def label(self) -> str:
        return Path(self.path).name

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """The tasks of the file; the seed has no effect.

        Raises:
            InputError: the file is not a task list, or its tasks do not match the samples.
        """
        tasks = Tasks.load(Path(self.path))
        highest = max(int(part.max()) for part in (tasks.support, tasks.query) if part.numel())
        if highest >= len(labels):
            raise InputError(
                f"{self.path}: has image index {highest}, but the split has {len(labels)} images; use tasks of this "
                f"benchmark and split"
            )
        for samples, drawn, mask in (
            (tasks.support, tasks.support_labels, tasks.support_mask),
            (tasks.query, tasks.query_labels, tasks.query_mask),
        ):
            right = labels[samples] == tasks.classes.gather(1, drawn)
            if not bool((right if mask is None else right | ~mask).all()):
                raise InputError(
                    f"{self.path}: its labels differ from those of this split; use tasks of this benchmark and split"
                )
        return tasks.source
