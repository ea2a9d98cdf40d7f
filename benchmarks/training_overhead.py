"""Images per second of base training against a bare PyTorch loop with the same batches and augmentation.

Both train conv4 on images of 32 and 84 pixels (`--sizes`), in turns within one process; each ratio is printed, and
their median. The bare loop has its images in memory and does what is needed and nothing else: no validation, no
checkpoint, no log, no look at the loss. `train` has them in a memory-mapped file as `fsl.benchmarks.images` has them,
progress is counted, and its curves go to a run of MLflow in SQLite. A second ratio compares processor time from the end
of the first step to that of the last, which other programs on the machine disturb less (with OMP_NUM_THREADS=1 no
thread waits for another). What `train` does besides, once a training or once an epoch (building the network, validation
of 100 images, two files, the record), is given in seconds of processor time.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from machine import describe
from pytorch_lightning.loggers import Logger
from torch.nn import functional

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.progress import Advance
from clustering.foundation.streams import stream
from fsl.backbones import create_backbone
from fsl.benchmarks.augmentation import Augmentation, normalise
from fsl.benchmarks.benchmark import Decoded
from fsl.benchmarks.images import ImageSet
from fsl.benchmarks.listed import ListedBenchmark
from fsl.machine import keep_freed_memory, resolve_device
from fsl.training.base import Training, train
from runs.cache import Store
from runs.console.output import Console
from runs.stages.trainer_parts import logger_of
from runs.track import Tracker


@dataclass(frozen=True)
class Noise:
    """Images of nothing: how fast they go through does not depend on what they show.

    Attributes:
        size: side of the images in pixels; they are changed at random as mini-ImageNet's are.
    """

    size: int = 84

    name: ClassVar[str] = "noise"
    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)
    std: ClassVar[tuple[float, ...]] = (0.3, 0.3, 0.3)
    augmentation: ClassVar[Augmentation] = ListedBenchmark.augmentation

    def source(self) -> str:
        return "noise"

    def read(self, split: str) -> Decoded:
        raise AssertionError("train is handed its images")


def noise(path: Path, size: int, classes: int, each: int) -> ImageSet:
    """Images in a memory-mapped file."""
    pixels = stream(0, "noise", path.stem).integers(0, 256, (classes * each, Noise.channels, size, size), np.uint8)
    write_tensors(path, {"images": torch.from_numpy(pixels)}, {"format": "noise"})
    labels = torch.arange(classes).repeat_interleave(each)
    mapped, _ = read_tensors(path, "noise", "run again")
    return ImageSet(mapped["images"], labels, tuple(map(str, range(classes))), path.stem)


class Speed(NamedTuple):
    """Images per second by the clock, and per second of processor time; seconds of processor time beside the steps."""

    clock: float
    processor: float
    beside: float


class Steps:
    """Processor time at the end of each step; a `clustering.foundation.progress.Progress` that shows its bar, too."""

    def __init__(self) -> None:
        self._console, self._began = Console(), time.process_time()
        self._ends: list[tuple[int, float, float]] = []

    def count(self, images: int) -> None:
        self._ends.append((images, time.process_time(), time.perf_counter()))

    def note(self, text: str) -> None:
        self._console.note(text)

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Advance]:
        with self._console.track(description, total) as show:

            def advance(n: int = 1, **numbers: float | str) -> None:
                show(n, **numbers)
                if n:
                    self.count(n)

            yield advance

    def speed(self) -> Speed:
        """From the end of the first step to that of the last."""
        (_, used, clock), (_, last, end) = self._ends[0], self._ends[-1]
        images = sum(images for images, *_ in self._ends[1:])
        return Speed(images / (end - clock), images / (last - used), time.process_time() - self._began - (last - used))


def bare(images: ImageSet, benchmark: Noise, training: Training, device: torch.device) -> Speed:
    """The loop that one would write by hand."""
    backbone = create_backbone("conv4", channels=benchmark.channels, size=benchmark.size)
    head = torch.nn.Linear(backbone.feature_size, len(images.class_names))
    network = torch.nn.Sequential(backbone, head).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )
    generator, pixels_in_memory = torch.Generator().manual_seed(0), images.images.clone()
    steps = Steps()
    for _ in range(training.epochs):
        for indices in torch.randperm(len(images.labels), generator=generator).split(training.batch_size):
            labels = images.labels[indices].to(device)
            pixels = benchmark.augmentation(pixels_in_memory[indices].to(device), generator)
            pixels = normalise(pixels, benchmark.mean, benchmark.std).contiguous(memory_format=torch.channels_last)
            loss = functional.cross_entropy(network(pixels), labels, label_smoothing=training.label_smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.count(len(indices))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return steps.speed()


def ours(base: ImageSet, validation: ImageSet, benchmark: Noise, training: Training, run: Logger, device: str) -> Speed:
    """`train`."""
    with tempfile.TemporaryDirectory() as folder:
        place, steps = Path(folder), Steps()
        train("conv4", benchmark, base, validation, training, 0, place, logger=run, progress=steps, device=device)
        return steps.speed()


def compare(benchmark: Noise, each: int, folder: Path, turns: int, device: str) -> None:
    """Turns of both sides on images of one size."""
    store = Store(folder / "results")
    store.prepare()
    tracker = Tracker(store)
    run = tracker.start(
        "train/noise", f"{benchmark.size} pixels", stage="checkpoint", key="none", params={}, config="", tags={}
    )
    logger = logger_of(run.run_id, tracker.uri, {})
    base = noise(folder / "base.safetensors", benchmark.size, 64, each)
    validation = noise(folder / "validation.safetensors", benchmark.size, 5, 20)
    training = Training(epochs=1, batch_size=128, schedule="cosine", validation_tasks=1)
    ratios: list[Speed] = []
    for turn in range(-1, turns):
        hand = lightning = Speed(0, 0, 0)
        # who goes first changes, so that a slow drift of the machine favours neither
        for side in ("bare", "ours") if turn % 2 else ("ours", "bare"):
            if side == "bare":
                hand = bare(base, benchmark, training, resolve_device(device))
            else:
                lightning = ours(base, validation, benchmark, training, logger, device)
        if turn < 0:
            continue  # the first turn pays for imports and for warming up
        ratios.append(Speed(lightning.clock / hand.clock, lightning.processor / hand.processor, lightning.beside))
        print(
            f"{benchmark.size} pixels, turn {turn + 1}: train {lightning.clock:.0f} images/s, bare loop "
            f"{hand.clock:.0f}, ratio {ratios[-1].clock:.3f}, of processor time {ratios[-1].processor:.3f}"
        )
    clock, processor, beside = (statistics.median(values) for values in zip(*ratios, strict=True))
    print(f"{benchmark.size} pixels: median ratio {clock:.3f} (goal: at least 0.95)")
    print(f"of processor time {processor:.3f}, and {beside:.1f} s beside the steps")


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
