"""Tasks read from a file written by `transduce tasks` or another program."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Validated
from fsl.tasks import Tasks, TaskSource


@dataclass(frozen=True)
class File(Validated):
    """Use the tasks of a file, in its order.

    Attributes:
        path: a file of tasks in the format of `fsl.tasks.Tasks.save`. Its content is part of a run's identity; its path
            is not.
    """

    path: str

    @property
    def label(self) -> str:
        return Path(self.path).name

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """The tasks of the file; the seed has no effect.

        Raises:
            InputError: the file is not a task list, or its tasks do not match the samples.
        """
        tasks = Tasks.load(Path(self.path))
        highest = max(int(part.max()) for part in (tasks.support, tasks.query) if part.numel())
        if highest >= len(labels):
            raise InputError(
                f"{self.path}: has image index {highest}, but the split has {len(labels)} images; use tasks of this "
                f"benchmark and split"
            )
        drawn_labels = tasks.classes.gather(1, tasks.support_labels), tasks.classes.gather(1, tasks.query_labels)
        for samples, classes, mask in zip(
            (tasks.support, tasks.query), drawn_labels, (tasks.support_mask, tasks.query_mask), strict=True
        ):
            right = labels[samples] == classes
            if not bool((right if mask is None else right | ~mask).all()):
                raise InputError(
                    f"{self.path}: its labels differ from those of this split; use tasks of this benchmark and split"
                )
        return tasks.source
