"""Tasks with different numbers of support samples per class."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, assemble_equal
from fsl.samplers.sampler import Drawn
from fsl.tasks import BLOCK, Tasks


@dataclass(frozen=True)
class UnequalShots(Drawn):
    """Draw `way` random classes, with a uniformly random number of support samples from `shot_min` to `shot_max` and
    `query` query samples each, without replacement.

    Attributes:
        way: number of classes of a task, K.
        shot_min: minimum number of support samples per class.
        shot_max: maximum number of support samples per class.
        query: query samples per class.
    """

    way: Annotated[int, AtLeast(2)] = 5
    shot_min: Annotated[int, AtLeast(1)] = 1
    shot_max: Annotated[int, AtLeast(1)] = 10
    query: Annotated[int, AtLeast(1)] = 15

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shot_min > self.shot_max:
            raise InputError(f"shot_min={self.shot_min} is above shot_max={self.shot_max}; lower shot_min")

    @property
    def label(self) -> str:
        return f"{self.way}w{self.shot_min}-{self.shot_max}s"

    def _check(self, pool: Pool) -> None:
        reason = f"shot_max={self.shot_max} and query={self.query}"
        pool.require(self.way, self.shot_max + self.query, reason, "lower shot_max or query")

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        random = stream(seed, "unequal shots tasks", self.way, self.shot_min, self.shot_max, self.query, index)
        classes = pool.classes(random, BLOCK, self.way)
        shots = random.integers(self.shot_min, self.shot_max, (BLOCK, self.way, 1), endpoint=True)
        samples = pool.samples(random, classes, self.shot_max + self.query)
        return assemble_equal(random, classes, samples, self.shot_max, is_support=np.arange(self.shot_max) < shots)
