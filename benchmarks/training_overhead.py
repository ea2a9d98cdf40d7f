"""Images per second of base training against a bare PyTorch loop with the same batches and augmentation.

Both train conv4 on 28-pixel images, in turns within one process; each ratio is printed, and their median.
The bare loop does what is needed and nothing else: no validation, no checkpoint, no log, no look at the loss.
A second ratio compares processor time, which other programs on the machine disturb less; there, `train` also pays for
building the network, one validation and two files on disk. With OMP_NUM_THREADS=1 no thread waits for another.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from machine import describe
from torch.nn import functional

from fsl.augmentation import Augmentation, normalise
from fsl.backbones import create_backbone
from fsl.benchmarks.benchmark import Decoded
from fsl.benchmarks.images import ImageSet
from fsl.machine import has_fast_bfloat16, keep_freed_memory, resolve_device
from fsl.training import Training, train


@dataclass(frozen=True)
class Noise:
    """Images of nothing: how fast they go through does not depend on what they show."""

    name: ClassVar[str] = "noise"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    mean: ClassVar[tuple[float, ...]] = (0.5,)
    std: ClassVar[tuple[float, ...]] = (0.3,)
    augmentation: ClassVar[Augmentation] = Augmentation(rotation=10, translation=0.07, scale=0.12, shear=8)

    def source(self) -> str:
        return "noise"

    def read(self, split: str) -> Decoded:
        raise AssertionError("train is handed its images")


def noise(count: int, classes: int) -> ImageSet:
    generator = torch.Generator().manual_seed(classes)
    pixels = torch.randint(0, 256, (count, 1, 28, 28), generator=generator, dtype=torch.uint8)
    return ImageSet(pixels, torch.arange(count) % classes, tuple(map(str, range(classes))), str(count))


class Speed(NamedTuple):
    """Images per second by the clock, and per second of processor time."""

    clock: float
    processor: float


def bare(images: ImageSet, training: Training, device: torch.device) -> Speed:
    """The loop that one would write by hand."""
    backbone = create_backbone("conv4", channels=1, size=28)
    head = torch.nn.Linear(backbone.feature_size, len(images.class_names))
    network = torch.nn.Sequential(backbone, head).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )
    generator = torch.Generator().manual_seed(0)
    began, used, done = time.perf_counter(), time.process_time(), 0
    for _ in range(training.epochs):
        for indices in torch.randperm(len(images.labels), generator=generator).split(training.batch_size):
            labels = images.labels[indices].to(device)
            pixels = Noise.augmentation(images.images[indices].to(device), generator)
            pixels = normalise(pixels, Noise.mean, Noise.std).contiguous(memory_format=torch.channels_last)
            with torch.autocast(device.type, torch.bfloat16, enabled=has_fast_bfloat16(device)):
                loss = functional.cross_entropy(network(pixels), labels, label_smoothing=training.label_smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += len(indices)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return Speed(done / (time.perf_counter() - began), done / (time.process_time() - used))


def ours(images: ImageSet, validation: ImageSet, training: Training, seed: int, device: str) -> Speed:
    """`train`: by the clock from batch to batch, by the processor all of it."""
    with tempfile.TemporaryDirectory() as folder:
        used = time.process_time()
        trained = train("conv4", Noise(), images, validation, training, seed, Path(folder), device=device)
        return Speed(trained.images_per_second, trained.images / (time.process_time() - used))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--images", type=int, default=6400, help="a turn")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    keep_freed_memory()
    device = resolve_device(options.device)
    images, validation = noise(options.images, 64), noise(100, 5)
    training = Training(epochs=1, batch_size=128, schedule="cosine", validation_tasks=1)
    print(describe())
    ours(images, validation, training, 0, options.device)  # the first turn pays for imports and for warming up
    bare(images, training, device)
    ratios: list[Speed] = []
    for turn in range(options.turns):
        # who goes first changes, so that a slow drift of the machine favours neither
        if turn % 2:
            hand = bare(images, training, device)
            lightning = ours(images, validation, training, turn, options.device)
        else:
            lightning = ours(images, validation, training, turn, options.device)
            hand = bare(images, training, device)
        ratios.append(Speed(lightning.clock / hand.clock, lightning.processor / hand.processor))
        print(
            f"turn {turn + 1}: train {lightning.clock:.0f} images/s, bare loop {hand.clock:.0f}, "
            f"ratio {ratios[-1].clock:.3f}, of processor time {ratios[-1].processor:.3f}"
        )
    clock, processor = (statistics.median(values) for values in zip(*ratios, strict=True))
    print(f"median ratio {clock:.3f} (goal: at least 0.95), of processor time {processor:.3f}")


if __name__ == "__main__":
    main()
