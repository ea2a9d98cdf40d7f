"""Balanced tasks, the usual protocol: as many queries of every class."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from clustering.parameters import AtLeast, validate
from clustering.streams import stream
from fsl.samplers.pool import Pool, shuffled
from fsl.tasks import BLOCK, Tasks, TaskSource


@dataclass(frozen=True)
class Balanced:
    """`way` random classes, of each `shot` support and `query` query samples, all without replacement.

    Attributes:
        way: classes of a task, K.
        shot: support samples of each class.
        query: query samples of each class.
    """

    way: Annotated[int, AtLeast(2)] = 5
    shot: Annotated[int, AtLeast(1)] = 1
    query: Annotated[int, AtLeast(1)] = 15

    def __post_init__(self) -> None:
        validate(self)

    @property
    def label(self) -> str:
        return f"{self.way}w{self.shot}s"

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """Tasks over the samples of a split.

        Raises:
            InputError: fewer classes than `way`, or a class with fewer samples than `shot + query`.
        """
        pool = Pool.of(labels, class_names)
        reason = f"shot={self.shot} and query={self.query}"
        pool.require(self.way, self.shot + self.query, reason, "lower shot or query")
        return TaskSource(partial(self._block, pool, seed))

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        random = stream(seed, "tasks", self.way, self.shot, self.query, index)
        classes = pool.classes(random, BLOCK, self.way)
        samples = pool.samples(random, classes, self.shot + self.query)
        support, query = samples[..., : self.shot], samples[..., self.shot :]
        positions = np.arange(self.way)
        query_labels = np.broadcast_to(np.repeat(positions, self.query), (BLOCK, self.way * self.query))
        query, query_labels = shuffled(random, query.reshape(BLOCK, -1), query_labels)
        return Tasks(
            support=torch.from_numpy(support.reshape(BLOCK, -1)),
            support_labels=torch.from_numpy(np.repeat(positions, self.shot)).expand(BLOCK, -1),
            query=torch.from_numpy(query),
            query_labels=torch.from_numpy(query_labels),
            classes=torch.from_numpy(classes),
        )
