"""What a sampler is: how tasks are drawn from the samples of a split."""

from typing import Protocol

from torch import Tensor

from fsl.tasks import TaskSource


class Sampler(Protocol):
    """A frozen dataclass whose fields are its config; one small file each.

    Attributes:
        label: a few characters for the names of runs, such as "5w1s": way and shot, and what is special.
    """

    @property
    def label(self) -> str: ...

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """Tasks over the samples of a split.

        Args:
            labels: (N,) class of each sample, 0..K-1.
            seed: tasks of different seeds are independent.
            class_names: for messages only.

        Raises:
            InputError: tasks that these classes cannot give; names the class or the key, and the remedy.
        """
        ...
