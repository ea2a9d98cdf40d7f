"""Tasks of many classes whose queries are of a few of them only (Martin et al. 2022, PADDLE, section 5)."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, assemble, smallest, subset
from fsl.tasks import BLOCK, Tasks, TaskSource


@dataclass(frozen=True)
class FewClasses:
    """`way` random classes, `shot` support samples of each; the queries are drawn uniformly from all other samples of
    `effective` of these classes.

    Support and query share no sample (PADDLE's public sampler draws them independently). Some of the effective classes
    may get no query, large ones get more.

    Attributes:
        way: classes of a task, K; the papers take all of the split.
        shot: support samples of each class.
        queries: of a task, in all.
        effective: classes that the queries are drawn from, at most `way`.
    """

    way: Annotated[int, AtLeast(2)] = 20
    shot: Annotated[int, AtLeast(1)] = 5
    queries: Annotated[int, AtLeast(1)] = 75
    effective: Annotated[int, AtLeast(1)] = 5

    def __post_init__(self) -> None:
        validate(self)
        if self.effective > self.way:
            raise InputError(f"effective={self.effective} classes are more than way={self.way}; lower effective")

    @property
    def label(self) -> str:
        return f"{self.way}w{self.shot}s {self.effective} effective"

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """Tasks over the samples of a split.

        Raises:
            InputError: fewer classes than `way`, or classes with too few samples.
        """
        pool = Pool.of(labels, class_names)
        pool.require(self.way, self.shot, f"shot={self.shot}", "lower shot")
        pool.require_queries(self.effective, self.shot, self.queries, "lower queries or shot, or raise effective")
        return TaskSource(partial(self._block, pool, seed))

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        random = stream(seed, "few classes tasks", self.way, self.shot, self.queries, self.effective, index)
        classes = pool.classes(random, BLOCK, self.way)
        places = subset(random, pool.counts[classes], self.shot)
        support = pool.members[classes[..., None], places]
        effective = smallest(random.random(classes.shape), self.effective)
        query, query_labels = self._queries(random, pool, classes, places, effective)
        return assemble(random, classes, support, query, query_labels)

    def _queries(
        self,
        random: np.random.Generator,
        pool: Pool,
        classes: NDArray[np.int64],
        places: NDArray[np.int64],
        effective: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(B, queries) samples and positions of the effective classes (B, effective), none at the support's places."""
        rows = np.arange(len(classes))[:, None]
        left = pool.counts[classes[rows, effective]] - self.shot
        ends = left.cumsum(axis=1)
        ranks = subset(random, ends[:, -1], self.queries)  # among all that is left, class after class
        which = (ranks[..., None] >= ends[:, None, :]).sum(axis=2)
        place = ranks - (ends - left)[rows, which]
        labels = effective[rows, which]
        for taken in np.moveaxis(np.sort(places, axis=2)[rows, labels], 2, 0):
            place = place + (place >= taken)  # counted without the support, which is passed over
        return pool.members[classes[rows, labels], place], labels
