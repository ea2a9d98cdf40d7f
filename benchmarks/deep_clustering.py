"""Discriminative clustering of MNIST without labels, by a small network: accuracy by seed, and what a step's
pseudo-labels cost beside the step.

    python benchmarks/deep_clustering.py ROOT --objective entropy --seeds 6 --points 20000 --epochs 5
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from machine import describe
from torch import Tensor

from clustering.datasets.mnist import MNIST
from clustering.deep import OBJECTIVES
from clustering.deep.networks import small_cnn
from clustering.deep.training import DeepTraining, train
from clustering.foundation.streams import stream
from clustering.metrics import accuracy, nmi
from fsl.benchmarks.augmentation import Augmentation

VIEWS = Augmentation(rotation=15, translation=0.1, scale=0.15, shear=10)


def prepare(images: Tensor) -> Tensor:
    """The inner 24 x 24 pixels, scaled."""
    return ((images[..., 2:26, 2:26].float() / 255 - 0.1307) / 0.3081).contiguous(memory_format=torch.channels_last)


class Print:
    """Curves as lines."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        shown = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
        print(f"  epoch {step:2}  {time.perf_counter() - self.began:5.0f} s  {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder with mnist.npz")
    parser.add_argument("--objective", default="entropy", help="comma-separated, of clustering.deep.OBJECTIVES")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--labels", type=int, default=0, help="points of known class")
    given = parser.parse_args()
    print(describe())
    data = MNIST(str(given.root)).read()
    for name in given.objective.split(","):
        found = []
        for seed in range(given.seeds):
            chosen = stream(seed, "deep mnist").permutation(len(data.labels))[: given.points]
            images = torch.from_numpy((data.values[chosen] * 255).round().astype(np.uint8)).view(-1, 1, 28, 28)
            truth = data.labels[chosen]
            known = np.where(np.arange(len(truth)) < given.labels, truth, -1) if given.labels else None
            began = time.perf_counter()
            result = train(
                lambda: small_cnn(1).to(memory_format=torch.channels_last),
                images,
                10,
                OBJECTIVES.load(name)(),
                DeepTraining(epochs=given.epochs),
                prior=np.ones(10),
                seed=seed,
                partial_labels=known,
                augment=VIEWS,
                prepare=prepare,
                log=Print(),
            )
            free = np.arange(len(truth)) >= given.labels
            matched = accuracy(truth[free], result.labels[free])
            plain = float((truth == result.labels)[free].mean())
            found.append(plain if given.labels else matched)
            print(
                f"{name} seed {seed}: ACC {matched:.4f}  NMI {nmi(truth[free], result.labels[free]):.4f}"
                + (f"  accuracy {plain:.4f}" if given.labels else "")
                + f"  sizes {result.sizes.min()} to {result.sizes.max()}  {time.perf_counter() - began:.0f} s",
                flush=True,
            )
        spread = np.std(found, ddof=1) if len(found) > 1 else 0.0
        print(f"{name}: mean {np.mean(found):.4f}, deviation {spread:.4f}, {given.seeds} seeds")


if __name__ == "__main__":
    main()
