"""Samplers that draw tasks at random from the classes of a split, and the protocol of all samplers."""

from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass
from functools import partial
from typing import Annotated, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Validated
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool, assemble, assemble_equal, beside, smallest, subset
from fsl.tasks import BLOCK, Tasks, TaskSource


class Sampler(Protocol):
    """A frozen dataclass whose fields are its config.

    Attributes:
        label: short text for the names of runs, such as "5w1s" for way and shot.
    """

    @property
    def label(self) -> str: ...

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """Draw tasks from the samples of a split.

        Args:
            labels: (N,) class of each sample, 0..K-1.
            seed: seed; tasks of different seeds are independent.
            class_names: names of the classes, for messages.

        Raises:
            InputError: the classes are insufficient for the tasks; the message names the class or key, and a remedy.
        """
        ...


@dataclass(frozen=True)
class Drawn(Validated, ABC):
    """What samplers that draw tasks block by block have in common; another `Sampler` need not inherit it."""

    key: ClassVar[str]  # of the random numbers

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """Draw tasks from the samples of a split, see `Sampler`."""
        pool = Pool.of(labels, class_names)
        self._check(pool)
        return TaskSource(partial(self._block, pool, seed))

    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        """The tasks of a block, which depend on the fields and (seed, index) alone."""
        fields = (repr(value) if isinstance(value, float) else value for value in self._settings(pool))
        return self._draw(pool, stream(seed, self.key, *fields, index))

    def _settings(self, pool: Pool) -> tuple[int | float, ...]:
        return astuple(self)

    @abstractmethod
    def _check(self, pool: Pool) -> None:
        """Raise InputError if there are fewer classes or samples than the tasks need."""

    @abstractmethod
    def _draw(self, pool: Pool, random: np.random.Generator) -> Tasks:
        """`BLOCK` tasks."""


@dataclass(frozen=True)
class Balanced(Drawn):
    """Draw `way` random classes, with `shot` support and `query` query samples each, without replacement: the usual
    protocol.

    Attributes:
        way: number of classes of a task, K.
        shot: support samples per class.
        query: query samples per class.
    """

    key: ClassVar[str] = "tasks"

    way: Annotated[int, AtLeast(2)] = 5
    shot: Annotated[int, AtLeast(1)] = 1
    query: Annotated[int, AtLeast(1)] = 15

    @property
    def label(self) -> str:
        return f"{self.way}w{self.shot}s"

    def _check(self, pool: Pool) -> None:
        reason = f"shot={self.shot} and query={self.query}"
        pool.require(self.way, self.shot + self.query, reason, "lower shot or query")

    def _draw(self, pool: Pool, random: np.random.Generator) -> Tasks:
        classes = pool.classes(random, BLOCK, self.way)
        return assemble_equal(random, classes, pool.samples(random, classes, self.shot + self.query), self.shot)


@dataclass(frozen=True)
class Dirichlet(Balanced):
    """Draw `way` random classes with `shot` support samples each, and `way * query` queries with class proportions from
    a Dirichlet distribution (Veilleux et al. 2021, alpha-TIM, section 4).

    The proportions are rounded to counts by the largest-remainder method; a class may have no query. If a class has
    fewer samples than its count, the rest is distributed over the other classes in their proportions. Support and query
    are disjoint (the public sampler of alpha-TIM draws them independently).

    Attributes:
        query: mean number of queries per class; a task has `way * query` queries.
        concentration: parameter of the distribution, above 0; 2 in the papers. Smaller values are less balanced.
    """

    key: ClassVar[str] = "dirichlet tasks"

    concentration: Annotated[float, Above(0)] = 2.0

    @property
    def label(self) -> str:
        return f"{super().label} dirichlet{'' if self.concentration == 2 else f' {self.concentration:g}'}"

    def _settings(self, pool: Pool) -> tuple[int | float, ...]:
        return self.way, self.shot, self.query, float(self.concentration)

    def _check(self, pool: Pool) -> None:
        pool.require(self.way, self.shot, f"shot={self.shot}", "lower shot")
        pool.require_queries(self.way, self.shot, self.way * self.query, "lower shot or query")

    def _draw(self, pool: Pool, random: np.random.Generator) -> Tasks:
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
        rank = np.argsort(np.argsort(floors - exact, axis=1, kind="stable"), axis=1)
        floors += rank < rest - floors.sum(axis=1, keepdims=True)
        counts = np.minimum(counts + floors.astype(np.int64), capacity)
    return counts


@dataclass(frozen=True)
class FewClasses(Drawn):
    """Draw `way` random classes with `shot` support samples each; the queries are drawn uniformly from the other
    samples of `effective` of these classes (Martin et al. 2022, PADDLE, section 5).

    Support and query are disjoint (PADDLE's public sampler draws them independently). An effective class may have no
    query; large classes have more queries.

    Attributes:
        way: number of classes of a task, K; the papers use all classes of the split.
        shot: support samples per class.
        queries: number of queries of a task.
        effective: number of classes of the queries, at most `way`.
    """

    key: ClassVar[str] = "few classes tasks"

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

    def _draw(self, pool: Pool, random: np.random.Generator) -> Tasks:
        classes = pool.classes(random, BLOCK, self.way)
        places = subset(random, pool.counts[classes], self.shot)
        effective = smallest(random.random(classes.shape), self.effective)
        left = np.take_along_axis(pool.counts[classes], effective, axis=1) - self.shot
        ranks = subset(random, left.sum(axis=1), self.queries)  # among all remaining samples, sorted by class
        labels, place = beside(ranks, left, effective, places)
        support = pool.members[classes[..., None], places]
        query = pool.members[np.take_along_axis(classes, labels, axis=1), place]
        return assemble(random, classes, support, query, labels)


@dataclass(frozen=True)
class NamedClasses(Drawn):
    """Tasks with all classes of the split, for strategies with class names. The queries are drawn uniformly from the
    samples of `classes_min` to `classes_max` random classes; the number is uniformly random (Zanella et al. 2025,
    StatA, section 5).

    If these classes have too few samples, the task has fewer queries. The defaults are zero-shot.

    Attributes:
        queries: maximum number of queries of a task.
        classes_min: minimum number of classes of the queries.
        classes_max: maximum number of classes of the queries; null: all classes of the split.
        shot: support samples of every class; 0: zero-shot, which needs class names.
    """

    key: ClassVar[str] = "named classes tasks"

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

    def _settings(self, pool: Pool) -> tuple[int | float, ...]:
        return self.queries, self.classes_min, self.classes_max or len(pool.counts), self.shot

    def _check(self, pool: Pool) -> None:
        if max(self.classes_max or 0, self.classes_min) > len(pool.counts):
            raise InputError(
                f"classes_max={self.classes_max} and classes_min={self.classes_min}, but the split has only "
                f"{len(pool.counts)} classes; lower them"
            )
        pool.require(2, self.shot + 1, f"shot={self.shot} and a query", "lower shot")

    def _draw(self, pool: Pool, random: np.random.Generator) -> Tasks:
        ways = len(pool.counts)
        counts, classes = (np.broadcast_to(row, (BLOCK, ways)) for row in (pool.counts, np.arange(ways)))
        places = subset(random, counts, self.shot)
        number = random.integers(self.classes_min, self.classes_max or ways, BLOCK, endpoint=True)
        order = smallest(random.random((BLOCK, ways)), ways)
        left = np.take_along_axis(counts, order, axis=1) - self.shot
        left = np.where(np.arange(ways) < number[:, None], left, 0)
        total = left.sum(axis=1)
        ranks = subset(random, total, np.minimum(self.queries, total))
        ranks = np.pad(ranks, ((0, 0), (0, self.queries - ranks.shape[1])), constant_values=-1)
        labels, place = beside(np.maximum(ranks, 0), left, order, places)
        support, query = pool.members[classes[..., None], places], pool.members[labels, np.where(ranks < 0, 0, place)]
        return assemble(random, classes, support, query, labels, ranks >= 0)
