"""Balanced tasks: the same number of queries in each class, the usual protocol."""

from dataclasses import dataclass
from typing import Annotated

from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, assemble_equal
from fsl.samplers.sampler import Drawn
from fsl.tasks import BLOCK, Tasks


@dataclass(frozen=True)
class Balanced(Drawn):
    """Draw `way` random classes, with `shot` support and `query` query samples each, without replacement.

    Attributes:
        way: number of classes of a task, K.
        shot: support samples per class.
        query: query samples per class.
    """

    way: Annotated[int, AtLeast(2)] = 5
    shot: Annotated[int, AtLeast(1)] = 1
    query: Annotated[int, AtLeast(1)] = 15

    @property
    def label(self) -> str:
        return f"{self.way}w{self.shot}s"

    def _check(self, pool: Pool) -> None:
        reason = f"shot={self.shot} and query={self.query}"
        pool.require(self.way, self.shot + self.query, reason, "lower shot or query")

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        random = stream(seed, "tasks", self.way, self.shot, self.query, index)
        classes = pool.classes(random, BLOCK, self.way)
        samples = pool.samples(random, classes, self.shot + self.query)
        return assemble_equal(random, classes, samples, self.shot)
