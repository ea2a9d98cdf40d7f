"""Spirals: interleaved arms that no prototype represents (Wang and Carreira-Perpinan)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.memory import require
from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream

RECIPE = 1  # increase it when other points would be generated


@dataclass(frozen=True)
class Spirals:
    """Arm j is (t sin(t + 2 pi j / arms), t cos(t + 2 pi j / arms)), t from pi/4 to 4 pi, with Gaussian noise.

    Attributes:
        arms: number of arms, which are the classes.
        points: number of points per arm.
        noise: standard deviation in both coordinates, whose largest absolute value is about 12.6.
        seed: seed of the noise.
    """

    name: ClassVar[str] = "spirals"

    arms: Annotated[int, AtLeast(1)] = 5
    points: Annotated[int, AtLeast(2)] = 400
    noise: Annotated[float, AtLeast(0)] = 0.1
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint("spirals", RECIPE)

    def read(self) -> Dataset:
        require(
            f"dataset spirals, arms={self.arms} points={self.points}",
            {"values": 100 * self.arms * self.points},
            "reduce points",
        )
        t = (4 * np.pi - np.pi / 4) * np.linspace(0, 1, self.points) ** 0.65 + np.pi / 4
        angles = t + 2 * np.pi * np.arange(self.arms)[:, None] / self.arms
        values = np.stack([t * np.sin(angles), t * np.cos(angles)], axis=2).reshape(-1, 2)
        values += self.noise * stream(self.seed, "spirals").standard_normal(values.shape)
        labels = np.repeat(np.arange(self.arms, dtype=np.int64), self.points)
        return Dataset(values.astype(np.float32), labels, tuple(map(str, range(self.arms))), ("x", "y"))
