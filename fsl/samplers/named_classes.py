"""Batches in which all classes of the split are named, and the queries come from a few of them (Zanella et al. 2025,
StatA, section 5)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, beside, smallest, subset
from fsl.samplers.sampler import Drawn
from fsl.tasks import BLOCK, Tasks


@dataclass(frozen=True)
class NamedClasses(Drawn):
    """Tasks with all classes of the split, for strategies with class names. The queries are drawn uniformly from the
    samples of `classes_min` to `classes_max` random classes; the number is uniformly random.

    If these classes have too few samples, the task has fewer queries. The defaults are zero-shot.

    Attributes:
        queries: maximum number of queries of a task.
        classes_min: minimum number of classes of the queries.
        classes_max: maximum number of classes of the queries; null: all classes of the split.
        shot: support samples of every class; 0: zero-shot, which needs class names.
    """

    queries: Annotated[int, AtLeast(1)] = 64
    classes_min: Annotated[int, AtLeast(1)] = 1
    classes_max: Annotated[int, AtLeast(1)] | None = None
    shot: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes_max is not None and self.classes_min > self.classes_max:
            raise InputError(f"classes_min={self.classes_min} is above classes_max={self.classes_max}; lower it")

    @property
    def label(self) -> str:
        highest = "all" if self.classes_max is None else self.classes_max
        return f"{self.shot}s {self.queries} of {self.classes_min}-{highest} classes"

    def _check(self, pool: Pool) -> None:
        highest = len(pool.counts) if self.classes_max is None else self.classes_max
        if max(highest, self.classes_min) > len(pool.counts):
            raise InputError(
                f"classes_max={self.classes_max} and classes_min={self.classes_min}, but the split has only "
                f"{len(pool.counts)} classes; lower them"
            )
        pool.require(2, self.shot + 1, f"shot={self.shot} and a query", "lower shot")

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        highest = len(pool.counts) if self.classes_max is None else self.classes_max
        random = stream(seed, "named classes tasks", self.queries, self.classes_min, highest, self.shot, index)
        ways = len(pool.counts)
        counts = np.broadcast_to(pool.counts, (BLOCK, ways))
        support_places = subset(random, counts, self.shot) if self.shot else np.empty((BLOCK, ways, 0), dtype=np.int64)
        number = random.integers(self.classes_min, highest, BLOCK, endpoint=True)
        order = smallest(random.random((BLOCK, ways)), ways)
        left = np.take_along_axis(counts, order, axis=1) - self.shot
        left = np.where(np.arange(ways) < number[:, None], left, 0)
        ends = left.cumsum(axis=1)
        sizes = np.minimum(self.queries, ends[:, -1])
        ranks = subset(random, ends[:, -1], sizes)
        ranks = np.pad(ranks, ((0, 0), (0, self.queries - ranks.shape[1])), constant_values=-1)
        keys = np.where(ranks >= 0, random.random(ranks.shape), np.inf)  # shuffled, padding last
        ranks = np.take_along_axis(ranks, np.argsort(keys, axis=1, kind="stable"), axis=1)
        present = ranks >= 0
        query_labels, place = beside(np.maximum(ranks, 0), left, order, support_places)
        query = pool.members[query_labels, np.where(present, place, 0)]
        support = pool.members[np.arange(ways)[:, None], support_places]
        return Tasks(
            support=torch.from_numpy(support.reshape(BLOCK, -1)),
            support_labels=torch.arange(ways).repeat_interleave(self.shot).expand(BLOCK, -1).contiguous(),
            query=torch.from_numpy(np.where(present, query, 0)),
            query_labels=torch.from_numpy(np.where(present, query_labels, 0)),
            classes=torch.arange(ways).expand(BLOCK, -1).contiguous(),
            query_mask=torch.from_numpy(present),
        )
