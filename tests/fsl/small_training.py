"""A training of seconds: its images, its settings, and what it logs and shows."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from pytorch_lightning.loggers import Logger
from torch import Tensor

from clustering.files.torch_files import load_state
from clustering.foundation.progress import quiet
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import Decoded
from fsl.benchmarks.images import ImageSet
from fsl.training.base import train
from fsl.training.settings import Trained, Training
from fsl.weights.checkpoints import load_backbone


@dataclass(frozen=True)
class Tiny:
    """16-pixel patterns under noise, a few of each class."""

    name: ClassVar[str] = "tiny"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 16
    mean: ClassVar[tuple[float, ...]] = (0.5,)
    std: ClassVar[tuple[float, ...]] = (0.3,)
    augmentation: ClassVar[Augmentation | Callable[[Tensor], Tensor]] = Augmentation(rotation=10, translation=0.1)

    def source(self) -> str:
        return "tiny"

    def read(self, split: str) -> Decoded:
        raise AssertionError("train is handed its images")


def images(classes: int, each: int, seed: int) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randint(0, 256, (classes, 1, 16, 16), generator=generator).repeat_interleave(each, dim=0)
    noise = torch.randint(-80, 80, patterns.shape, generator=generator)
    labels = torch.arange(classes).repeat_interleave(each)
    pixels = (patterns + noise).clamp(0, 255).to(torch.uint8)
    return ImageSet(pixels, labels, tuple(map(str, range(classes))), f"{classes} {each} {seed}")


BASE, VALIDATION = images(6, 12, 0), images(5, 8, 1)
SHORT = Training(
    epochs=4, batch_size=16, learning_rate=0.05, schedule="one_cycle", warmup=1, validate_every=2, validation_tasks=20
)


class Shown:
    """A progress that keeps what it is told, and can stop a training after so many batches."""

    def __init__(self, stop_after: int | None = None, error: type[BaseException] = RuntimeError) -> None:
        self.notes: list[str] = []
        self.count, self.total = 0, 0
        self.numbers: list[dict[str, float | str]] = []
        self._left, self._error = stop_after, error

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Any]:
        self.total, self.count = total, 0

        def advance(n: int = 1, **numbers: float | str) -> None:
            self.count += n
            self.numbers.append(numbers)
            if self._left is not None and n:
                self._left -= 1
                if self._left < 0:
                    raise self._error("stop")

        yield advance


class Curves(Logger):
    """A logger that keeps the metrics."""

    name, version = "curves", 0

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int | None, dict[str, float]]] = []

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.rows.append((step, dict(metrics)))

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        pass

    def values(self, name: str) -> dict[int | None, float]:
        return {step: values[name] for step, values in self.rows if name in values}


def run(folder: Path, training: Training = SHORT, shown: Shown | None = None, **changes: Any) -> Trained:
    given: dict[str, Any] = {"benchmark": Tiny(), "base": BASE, "validation": VALIDATION, "seed": 3, "device": "cpu"}
    return train("conv4", training=training, folder=folder, progress=shown or quiet, **given | changes)


def weights(folder: Path) -> dict[str, Tensor]:
    """The last and the best weights in a folder."""
    state = load_state(folder / "last.ckpt")
    assert state is not None
    best = {f"best.{key}": value for key, value in load_backbone(folder / "best.safetensors").state_dict().items()}
    return {**state["state_dict"], **best}


def assert_same(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert [key for key in first if not torch.equal(first[key], second[key])] == []
