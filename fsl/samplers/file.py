"""Tasks of a file, as `transduce tasks` or another program wrote them."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate
from fsl.tasks import Tasks, TaskSource


@dataclass(frozen=True)
class File:
    """Exactly the tasks of a file, in its order.

    Attributes:
        path: a file of tasks, as `fsl.tasks.Tasks.save` writes it. Where it lies is no part of a run's identity; its
            content is.
    """

    path: str

    def __post_init__(self) -> None:
        validate(self)

    @property
    def label(self) -> str:
        return Path(self.path).name

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """The tasks of the file; the seed changes nothing.

        Raises:
            InputError: a file that holds no tasks, or tasks of other samples than these.
        """
        tasks = Tasks.load(Path(self.path))
        highest = max(int(tasks.support.max()), int(tasks.query.max()))
        if highest >= len(labels):
            raise InputError(
                f"{self.path}: names image {highest}, but the split has {len(labels)}; give the tasks of this "
                f"benchmark and split"
            )
        own = tasks.classes.gather(1, tasks.support_labels), tasks.classes.gather(1, tasks.query_labels)
        for samples, classes, mask in zip(
            (tasks.support, tasks.query), own, (tasks.support_mask, tasks.query_mask), strict=True
        ):
            right = labels[samples] == classes
            if not bool((right if mask is None else right | ~mask).all()):
                raise InputError(
                    f"{self.path}: its labels are not those of this split; give the tasks of this benchmark and split"
                )
        return tasks.source
