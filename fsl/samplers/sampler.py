"""The protocol of samplers, which draw tasks from the samples of a split."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from clustering.foundation.parameters import Validated
from fsl.samplers.pool import Pool
from fsl.tasks import Tasks, TaskSource


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

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """Draw tasks from the samples of a split, see `Sampler`."""
        pool = Pool.of(labels, class_names)
        self._check(pool)
        return TaskSource(partial(self._block, pool, seed))

    @abstractmethod
    def _check(self, pool: Pool) -> None:
        """Raise InputError if there are fewer classes or samples than the tasks need."""

    @abstractmethod
    def _block(self, pool: Pool, seed: int, index: int) -> Tasks:
        """The tasks of a block, which depend on (seed, index) alone."""
