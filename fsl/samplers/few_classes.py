"""Tasks with many classes, whose queries come from a few of them (Martin et al. 2022, PADDLE, section 5)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, assemble, beside, smallest, subset
from fsl.samplers.sampler import Drawn
from fsl.tasks import BLOCK, Tasks


@dataclass(frozen=True)
class FewClasses(Drawn):
    """Draw `way` random classes with `shot` support samples each; the queries are drawn uniformly from the other
    samples of `effective` of these classes.

    Support and query are disjoint (PADDLE's public sampler draws them independently). An effective class may have no
    query; large classes have more queries.

    Attributes:
        way: number of classes of a task, K; the papers use all classes of the split.
        shot: support samples per class.
        queries: number of queries of a task.
        effective: number of classes of the queries, at most `way`.
    """

    way: Annotated[int, AtLeast(2)] = 20
    shot: Annotated[int, AtLeast(1)] = 5
    queries: Annotated[int, AtLeast(1)] = 75
    effective: Annotated[int, AtLeast(1)] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.effective > self.way:
            raise InputError(f"effective={self.effective} must be at most way={self.way}")

    @property
    def label(self) -> str:
        return f"{self.way}w{self.shot}s {self.effective} effective"

    def _check(self, pool: Pool) -> None:
        pool.require(self.way, self.shot, f"shot={self.shot}", "lower shot")
        pool.require_queries(self.effective, self.shot, self.queries, "lower queries or shot, or raise effective")

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        random = stream(seed, "few classes tasks", self.way, self.shot, self.queries, self.effective, index)
        classes = pool.classes(random, BLOCK, self.way)
        places = subset(random, pool.counts[classes], self.shot)
        support = pool.members[classes[..., None], places]
        effective = smallest(random.random(classes.shape), self.effective)
        rows = np.arange(BLOCK)[:, None]
        left = pool.counts[classes[rows, effective]] - self.shot
        ranks = subset(random, left.sum(axis=1), self.queries)  # among all remaining samples, sorted by class
        labels, place = beside(ranks, left, effective, places)
        return assemble(random, classes, support, pool.members[classes[rows, labels], place], labels)
