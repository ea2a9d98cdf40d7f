"""Long parallel bars, whose distance is smaller than their length."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.memory import require
from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.foundation.streams import stream

RECIPE = 1  # increase it when other points would be generated


@dataclass(frozen=True)
class Bars:
    """Points uniformly distributed in bars, stacked or arranged around a centre.

    K-means cuts the bars across, although there is a wide margin between them.

    Attributes:
        bars: number of bars, which are the classes.
        points: number of points per bar.
        length: length of a bar.
        thickness: thickness of a bar.
        gap: distance between neighbouring bars.
        around: whether the bars are the sides of a regular polygon, which needs three or more.
        seed: seed of the points.
    """

    name: ClassVar[str] = "bars"

    bars: Annotated[int, AtLeast(1)] = 2
    points: Annotated[int, AtLeast(2)] = 200
    length: Annotated[float, Above(0)] = 12.0
    thickness: Annotated[float, Above(0)] = 1.0
    gap: Annotated[float, Above(0)] = 0.6
    around: bool = False
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        validate(self)
        if self.around and self.bars < 3:
            raise InputError(f"bars={self.bars} cannot form a polygon; set bars to 3 or more, or around=false")

    def source(self) -> str:
        return fingerprint("bars", RECIPE)

    def read(self) -> Dataset:
        require(
            f"dataset bars, bars={self.bars} points={self.points}",
            {"values": 100 * self.bars * self.points},
            "reduce points",
        )
        rng = stream(self.seed, "bars")
        labels = np.repeat(np.arange(self.bars), self.points)
        middle = (labels - (self.bars - 1) / 2) * (self.thickness + self.gap)
        lengthwise = rng.uniform(-self.length / 2, self.length / 2, len(labels))
        across = rng.uniform(-self.thickness / 2, self.thickness / 2, len(labels))
        values = np.stack([lengthwise, across + middle], axis=1)
        if self.around:
            turn = 2 * np.pi * labels / self.bars
            # at this radius the inner edges would meet at the corners of the polygon
            radius = (self.length / 2 + self.gap / 2 / np.cos(np.pi / self.bars)) / np.tan(np.pi / self.bars)
            across += radius + self.thickness / 2
            values = np.stack(
                [lengthwise * np.cos(turn) - across * np.sin(turn), lengthwise * np.sin(turn) + across * np.cos(turn)],
                axis=1,
            )
        return Dataset(values.astype(np.float32), labels.astype(np.int64), tuple(map(str, range(self.bars))))
