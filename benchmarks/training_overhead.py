"""Images per second of base training against a bare PyTorch loop with the same batches and augmentation.

Both train conv4 on 28-pixel images, in turns within one process; each ratio is printed, and their median.
The bare loop does what is needed and nothing else: no validation, no checkpoint, no log, no look at the loss.
"""

import argparse
import os
import platform
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
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
        raise NotImplementedError


def noise(count: int, classes: int) -> ImageSet:
    generator = torch.Generator().manual_seed(classes)
    pixels = torch.randint(0, 256, (count, 1, 28, 28), generator=generator, dtype=torch.uint8)
    return ImageSet(pixels, torch.arange(count) % classes, tuple(map(str, range(classes))), str(count))


def bare(images: ImageSet, training: Training, device: torch.device) -> float:
    """Images per second of the loop that one would write by hand."""
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
    began, done = time.perf_counter(), 0
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
    return done / (time.perf_counter() - began)


def ours(images: ImageSet, validation: ImageSet, training: Training, seed: int, device: str) -> float:
    """Images per second of `train`, from batch to batch of each epoch."""
    with tempfile.TemporaryDirectory() as folder:
        return train(
            "conv4", Noise(), images, validation, training, seed, Path(folder), device=device
        ).images_per_second


def machine() -> str:
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    return (
        f"{processor}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, commit {commit.strip() or 'unknown'}"
    )


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
    print(machine())
    ours(images, validation, training, 0, options.device)  # the first turn pays for imports and for warming up
    bare(images, training, device)
    ratios = []
    for turn in range(options.turns):
        # who goes first changes, so that a slow drift of the machine favours neither
        if turn % 2:
            hand = bare(images, training, device)
            lightning = ours(images, validation, training, turn, options.device)
        else:
            lightning = ours(images, validation, training, turn, options.device)
            hand = bare(images, training, device)
        ratios.append(lightning / hand)
        print(f"turn {turn + 1}: train {lightning:.0f} images/s, bare loop {hand:.0f}, ratio {ratios[-1]:.3f}")
    print(f"median ratio {statistics.median(ratios):.3f} (goal: at least 0.95)")


if __name__ == "__main__":
    main()
