"""What processes that divide a training need to find in a module: a network, a benchmark, and work in trouble."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from clustering.foundation.errors import InputError
from fsl.benchmarks.augmentation import Augmentation


@dataclass(frozen=True)
class Patterns:
    """As in `test_training`; a process that is handed one knows the network `plain_divided`, too."""

    name: ClassVar[str] = "patterns"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 16
    mean: ClassVar[tuple[float, ...]] = (0.5,)
    std: ClassVar[tuple[float, ...]] = (0.3,)
    augmentation: ClassVar[Augmentation] = Augmentation(rotation=10, translation=0.1, brightness=0.2)

    def __setstate__(self, state: dict[str, Any]) -> None:
        register()

    def __getstate__(self) -> dict[str, Any]:
        return {"register": True}  # an empty state is not handed to __setstate__


def register() -> None:
    """Make the network known to timm, which takes seconds to import."""
    from timm.models import is_model, register_model
    from torch import nn

    def plain_divided(pretrained: bool = False, in_chans: int = 1, **options: Any) -> nn.Module:
        """Without batch normalisation and dropout: what it does to an image depends on no other."""
        layers = nn.Conv2d(in_chans, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten()
        return nn.Sequential(*layers)

    if not is_model("plain_divided"):
        register_model(plain_divided)


def add_up_and_fail_at_one(rank: int, log: Any, progress: Any) -> None:
    """The sum of what each rank has, reported by rank 0; then rank 1 fails, and rank 0 waits for it."""
    number = torch.tensor(float(rank + 1))
    torch.distributed.all_reduce(number)
    with progress.track("adding", 10) as advance:
        advance(4, loss=0.5)
        advance(6)
    progress.note(f"rank {rank}")
    if log is not None:
        log.metrics({"sum": float(number)}, step=1)
    torch.distributed.barrier()
    if rank == 1:
        raise InputError("rank 1 does not like it")
    torch.distributed.barrier()


def die_at_one(rank: int, log: Any, progress: Any) -> None:
    """Rank 1 is killed, rank 0 waits for it, and fails for it."""
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    torch.distributed.barrier()


class Unpicklable(Exception):
    """Needs more than its message."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_strangely(rank: int, log: Any, progress: Any) -> None:
    """With an error that no other process can build."""
    raise Unpicklable(1, 2)


@dataclass
class StandStill:
    """Leaves the number of each process in a folder, and waits."""

    folder: Path

    def __call__(self, rank: int, log: Any, progress: Any) -> None:
        (self.folder / f"{rank}.partial").write_text(str(os.getpid()))
        (self.folder / f"{rank}.partial").rename(self.folder / str(rank))
        time.sleep(120)
