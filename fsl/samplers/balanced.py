"""Balanced tasks: the same number of queries in each class, the usual protocol."""

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
    """Draw `way` random classes, with `shot` support and `query` query samples each, without replacement.

    Attributes:
        way: number of classes of a task, K.
        shot: support samples per class.
        query: query samples per class.
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
        """Draw tasks from the samples of a split.

        Raises:
            InputError: there are fewer classes than `way`, or a class has fewer samples than `shot + query`.
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
