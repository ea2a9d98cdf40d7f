"""Plug-ins for the tests of the runs: a benchmark that is made and learned in a moment, and one that fails."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.foundation.streams import stream
from fsl.benchmarks.augmentation import Augmentation
from fsl.strategies.simpleshot import SimpleShot

CLASSES = {"base": 8, "validation": 6, "novel": 7}


@dataclass(frozen=True)
class Tiny:
    """Each class is a random picture, each image that picture with noise."""

    seed: int = 0
    noise: float = 60.0

    name: ClassVar[str] = "tiny"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 16
    mean: ClassVar[tuple[float, ...]] = (0.5,)
    std: ClassVar[tuple[float, ...]] = (0.25,)
    augmentation: ClassVar[Augmentation] = Augmentation()

    def source(self) -> str:
        return f"{self.seed:08x}{int(self.noise):08x}"

    def read(self, split):
        random = stream(self.seed, "tiny", split)
        classes = CLASSES[split]
        pictures = random.uniform(60, 200, (classes, 1, 1, 16, 16))
        images = pictures + random.normal(0, self.noise, (classes, 20, 1, 16, 16))
        labels = np.repeat(np.arange(classes), 20)
        names = tuple(f"{split} {i}" for i in range(classes))
        return images.clip(0, 255).astype(np.uint8).reshape(-1, 1, 16, 16), labels, names


@dataclass(frozen=True)
class Failing:
    """A strategy that fails on every batch."""

    transform: str = "UN"

    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    def predict(self, episodes):
        raise ZeroDivisionError("on purpose")


@dataclass(frozen=True)
class Coloured:
    """As Tiny, of other classes, in colour and of another size. `known` of its novel classes are Tiny's base ones."""

    known: int = 0

    name: ClassVar[str] = "coloured"
    channels: ClassVar[int] = 3
    size: ClassVar[int] = 24
    mean: ClassVar[tuple[float, ...]] = (0.1, 0.2, 0.3)
    std: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)
    augmentation: ClassVar[Augmentation] = Augmentation()

    def source(self) -> str:
        return f"{self.known:016x}"

    def read(self, split):
        random = stream(7, "coloured", split)
        classes = CLASSES[split]
        pictures = random.uniform(60, 200, (classes, 1, 3, 24, 24))
        images = (pictures + random.normal(0, 30, (classes, 20, 3, 24, 24))).clip(0, 255).astype(np.uint8)
        known = self.known if split == "novel" else 0
        names = tuple(f"base {i}" if i < known else f"coloured {split} {i}" for i in range(classes))
        return images.reshape(-1, 3, 24, 24), np.repeat(np.arange(classes), 20), names


@dataclass(frozen=True)
class Troubled:
    """SimpleShot that leaves a mark in a folder and gets into trouble, the first few times that it is called."""

    trouble: str = "none"  # "die": its process is killed; "stand": it takes five seconds
    times: int = 1
    marks: str = ""
    transform: str = "UN"

    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    def predict(self, episodes):
        count = len(list(Path(self.marks).iterdir()))
        if count < self.times:
            (Path(self.marks) / f"{count}-{os.getpid()}").touch()
            if self.trouble == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(5)  # an interruption waits for the batches that are under way
        return SimpleShot(transform=self.transform).predict(episodes)
