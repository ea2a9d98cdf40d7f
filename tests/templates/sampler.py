"""Tasks of two classes, the smallest ones."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from torch import Tensor

from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, assemble_equal
from fsl.tasks import BLOCK, Tasks, TaskSource


@dataclass(frozen=True)
class TwoWays:
    """Two random classes, with `shot` support and `query` query samples of each.

    Attributes:
        shot: support samples of each class.
        query: query samples of each class.
    """

    shot: Annotated[int, AtLeast(1)] = 1
    query: Annotated[int, AtLeast(1)] = 5

    def __post_init__(self) -> None:
        validate(self)

    @property
    def label(self) -> str:
        return f"2w{self.shot}s"

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """Tasks over the samples of a split with labels (N,).

        Raises:
            InputError: fewer than two classes, or a class with fewer samples than `shot + query`.
        """
        pool = Pool.of(labels, class_names)
        pool.require(2, self.shot + self.query, f"shot={self.shot} and query={self.query}", "lower shot or query")
        return TaskSource(partial(self._block, pool, seed))

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        random = stream(seed, "two_ways", self.shot, self.query, index)
        classes = pool.classes(random, BLOCK, 2)
        samples = pool.samples(random, classes, self.shot + self.query)
        return assemble_equal(random, classes, samples, self.shot)
