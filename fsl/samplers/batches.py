"""A stream of all samples of a split, cut into batches: correlated in time, or one class after another."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.parameters import AtLeast, Validated
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool
from fsl.tasks import BLOCK, Tasks, TaskSource


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
        number = -(-len(labels) // self.size)
        order = self._order(labels.numpy(), pool, number, seed)
        rows = np.pad(order, (0, number * self.size - len(order)), constant_values=-1).reshape(number, self.size)
        ways = len(pool.counts)

        def block(index: int) -> Tasks:
            part = torch.from_numpy(rows[index * BLOCK : (index + 1) * BLOCK])
            none = torch.empty(len(part), 0, dtype=torch.int64)
            query = part.clamp_min(0)
            return Tasks(
                support=none,
                support_labels=none,
                query=query,
                query_labels=torch.where(part >= 0, labels[query], 0),
                classes=torch.arange(ways).expand(len(part), -1).contiguous(),
                query_mask=part >= 0,
            )

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
