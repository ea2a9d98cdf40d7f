"""Images per second of base training against a bare PyTorch loop with the same batches and augmentation.

Both train conv4 on images of 32 and 84 pixels (`--sizes`), in turns within one process; each ratio is printed, and
their median. The bare loop has its images in memory and does what is needed and nothing else: no validation, no
checkpoint, no log, no look at the loss. `train` has them in a memory-mapped file as `fsl.benchmarks.images` has them,
progress is counted, and its curves go to a run of MLflow in SQLite. Times are from the end of the first step to that of
the last; a second ratio is of processor time, which other programs on the machine disturb less.

    python benchmarks/training_overhead.py [--turns 7] [--images 6400] [--sizes 32 84] [--device auto]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from machine import describe
from pytorch_lightning.loggers import MLFlowLogger
from torch.nn import functional

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.devices import resolve_device
from clustering.foundation.progress import Advance
from fsl.backbones import create_backbone
from fsl.benchmarks.augmentation import Augmentation, normalise
from fsl.benchmarks.images import ImageSet
from fsl.benchmarks.listed import ListedBenchmark
from fsl.machine import keep_freed_memory
from fsl.training.base import train
from fsl.training.settings import Training

Speed = tuple[float, float]
"""Images per second by the clock, and per second of processor time."""


@dataclass(frozen=True)
class Noise:
    """A benchmark of noise, changed at random as mini-ImageNet's images are: what they show does not matter here."""

    size: int = 84
    name: ClassVar[str] = "noise"
    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)
    std: ClassVar[tuple[float, ...]] = (0.3, 0.3, 0.3)
    augmentation: ClassVar[Augmentation] = ListedBenchmark.augmentation

    def source(self) -> str:
        return "noise"


def noise(path: Path, size: int, classes: int, each: int) -> ImageSet:
    """Images in a memory-mapped file."""
    pixels = np.random.default_rng(0).integers(0, 256, (classes * each, 3, size, size), np.uint8)
    write_tensors(path, {"images": torch.from_numpy(pixels)}, {"format": "noise"})
    mapped, _ = read_tensors(path, "noise", "run again")
    labels = torch.arange(classes).repeat_interleave(each)
    return ImageSet(mapped["images"], labels, tuple(map(str, range(classes))), path.stem)


class Steps:
    """Times of the end of each step; a `clustering.foundation.progress.Progress`, too."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, float, float]] = []

    def count(self, images: int) -> None:
        self._ends.append((images, time.process_time(), time.perf_counter()))

    def note(self, text: str) -> None:
        pass

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Advance]:
        yield lambda n=1, **numbers: self.count(n) if n else None

    def speed(self) -> Speed:
        """From the end of the first step to that of the last."""
        (_, used, clock), (_, last, end) = self._ends[0], self._ends[-1]
        images = sum(images for images, *_ in self._ends[1:])
        return images / (end - clock), images / (last - used)


def bare(images: ImageSet, benchmark: Noise, training: Training, device: torch.device) -> Speed:
    """The loop that one would write by hand."""
    backbone = create_backbone("conv4", channels=benchmark.channels, size=benchmark.size)
    head = torch.nn.Linear(backbone.feature_size, len(images.class_names))
    network = torch.nn.Sequential(backbone, head).to(device, memory_format=torch.channels_last)
    rates = {"lr": training.learning_rate, "momentum": training.momentum, "weight_decay": training.weight_decay}
    optimizer = torch.optim.SGD(network.parameters(), **rates)
    generator, in_memory, steps = torch.Generator().manual_seed(0), images.images.clone(), Steps()
    for indices in torch.randperm(len(images.labels), generator=generator).split(training.batch_size):
        labels = images.labels[indices].to(device)
        pixels = benchmark.augmentation(in_memory[indices].to(device), generator)
        pixels = normalise(pixels, benchmark.mean, benchmark.std).contiguous(memory_format=torch.channels_last)
        loss = functional.cross_entropy(network(pixels), labels, label_smoothing=training.label_smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.count(len(indices))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return steps.speed()


def compare(benchmark: Noise, each: int, folder: Path, turns: int, device: str) -> None:
    """Turns of both sides on images of one size."""
    logger = MLFlowLogger("noise", tracking_uri=f"sqlite:///{folder}/mlflow.db")
    base = noise(folder / "base.safetensors", benchmark.size, 64, each)
    validation = noise(folder / "validation.safetensors", benchmark.size, 5, 20)
    training = Training(epochs=1, batch_size=128, schedule="cosine", validation_tasks=1)

    def ours() -> Speed:
        with tempfile.TemporaryDirectory() as place:
            steps, more = Steps(), {"logger": logger, "device": device}
            train("conv4", benchmark, base, validation, training, 0, Path(place), progress=steps, **more)
            return steps.speed()

    ratios = []
    for turn in range(-1, turns):  # the first turn pays for imports and is not counted
        sides = {"train": ours, "bare": lambda: bare(base, benchmark, training, resolve_device(device))}
        order = sorted(sides, reverse=bool(turn % 2))  # who goes first changes
        found = {side: sides[side]() for side in order}
        if turn >= 0:
            ratios.append([a / b for a, b in zip(found["train"], found["bare"], strict=True)])
            speeds = f"train {found['train'][0]:.0f} images/s, bare loop {found['bare'][0]:.0f}"
            print(f"{benchmark.size} pixels, turn {turn + 1}: {speeds}, ratio {ratios[-1][0]:.3f}", flush=True)
    clock, processor = (statistics.median(values) for values in zip(*ratios, strict=True))
    print(f"{benchmark.size} pixels: median ratio {clock:.3f} (goal: at least 0.95), of processor time {processor:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--images", type=int, default=6400, help="a turn, of the largest size")
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 84], help="sides of the images in pixels")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    keep_freed_memory()
    print(describe())
    for size in options.sizes:
        each = max(2, round(options.images / 64 * (max(options.sizes) / size) ** 2))
        with tempfile.TemporaryDirectory() as folder:
            compare(Noise(size), each, Path(folder), options.turns, options.device)


if __name__ == "__main__":
    main()
