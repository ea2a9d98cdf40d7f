"""The protocol of samplers, which draw tasks from the samples of a split."""

from typing import Protocol

from torch import Tensor

from fsl.tasks import TaskSource


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
