"""Balanced tasks, the usual protocol: as many queries of every class."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from torch import Tensor

from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, assemble_equal
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
        return assemble_equal(random, classes, samples, self.shot)
