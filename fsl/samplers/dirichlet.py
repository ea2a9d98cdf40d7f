"""Unbalanced tasks, with class proportions of the queries from a Dirichlet distribution (Veilleux et al. 2021,
alpha-TIM, section 4)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.parameters import Above, AtLeast
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, assemble
from fsl.samplers.sampler import Drawn
from fsl.tasks import BLOCK, Tasks


@dataclass(frozen=True)
class Dirichlet(Drawn):
    """Draw `way` random classes with `shot` support samples each, and `way * query` queries with class proportions from
    a Dirichlet distribution.

    The proportions are rounded to counts by the largest-remainder method; a class may have no query. If a class has
    fewer samples than its count, the rest is distributed over the other classes in their proportions. Support and query
    are disjoint (the public sampler of alpha-TIM draws them independently).

    Attributes:
        way: number of classes of a task, K.
        shot: support samples per class.
        query: mean number of queries per class; a task has `way * query` queries.
        concentration: parameter of the distribution, above 0; 2 in the papers. Smaller values are less balanced.
    """

    way: Annotated[int, AtLeast(2)] = 5
    shot: Annotated[int, AtLeast(1)] = 1
    query: Annotated[int, AtLeast(1)] = 15
    concentration: Annotated[float, Above(0)] = 2.0

    @property
    def label(self) -> str:
        return f"{self.way}w{self.shot}s dirichlet{'' if self.concentration == 2 else f' {self.concentration:g}'}"

    def _check(self, pool: Pool) -> None:
        pool.require(self.way, self.shot, f"shot={self.shot}", "lower shot")
        pool.require_queries(self.way, self.shot, self.way * self.query, "lower shot or query")

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        settings = (self.way, self.shot, self.query, repr(float(self.concentration)))
        random = stream(seed, "dirichlet tasks", *settings, index)
        classes = pool.classes(random, BLOCK, self.way)
        proportions = random.dirichlet(np.full(self.way, self.concentration), BLOCK)
        counts = apportion(proportions, self.way * self.query, pool.counts[classes] - self.shot)
        samples = pool.samples(random, classes, self.shot + counts)
        support, others = samples[..., : self.shot], samples[..., self.shot :]
        used = np.arange(others.shape[2]) < counts[..., None]
        positions = np.broadcast_to(np.arange(self.way)[:, None], others.shape)
        query, query_labels = (values[used].reshape(BLOCK, -1) for values in (others, positions))
        return assemble(random, classes, support, query, query_labels)


def apportion(proportions: NDArray[np.float64], total: int, capacity: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distribute `total` in the given proportions to integer counts, by the largest-remainder method with capacities.

    The excess over a capacity is distributed over the other entries in their proportions; ties go to the lowest index.

    Args:
        proportions: (B, K) proportions, rows sum to 1.
        total: the sum of the counts, at most the sum of each row's capacities.
        capacity: (B, K) maximum counts, at least 0.

    Returns:
        (B, K) int64 counts.
    """
    counts = np.zeros_like(capacity)
    # Each round completes a row or fills one of its entries, so there are at most K rounds.
    while (rest := total - counts.sum(axis=1, keepdims=True)).any():
        room = counts < capacity
        shares = np.where(room, proportions, 0)
        shares = np.where(shares.sum(axis=1, keepdims=True) > 0, shares, room)
        exact = rest * (shares / shares.sum(axis=1, keepdims=True))
        floors = np.floor(exact)
        order = np.argsort(floors - exact, axis=1, kind="stable")
        missing = rest - floors.sum(axis=1, keepdims=True)
        np.put_along_axis(
            floors, order, np.take_along_axis(floors, order, 1) + (np.arange(order.shape[1]) < missing), 1
        )
        counts = np.minimum(counts + floors.astype(np.int64), capacity)
    return counts
