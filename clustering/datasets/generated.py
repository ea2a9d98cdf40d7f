"""Points drawn at random: bars, spirals, and class scores without a model."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import Above, AtLeast, Validated
from clustering.foundation.streams import stream

RECIPE = 1  # increase it when other points would be generated


@dataclass(frozen=True)
class Included(Validated):
    """Points that need no file."""

    name: ClassVar[str]

    def source(self) -> str:
        return fingerprint(self.name, RECIPE)


@dataclass(frozen=True)
class Bars(Included):
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

    name = "bars"

    bars: Annotated[int, AtLeast(1)] = 2
    points: Annotated[int, AtLeast(2)] = 200
    length: Annotated[float, Above(0)] = 12.0
    thickness: Annotated[float, Above(0)] = 1.0
    gap: Annotated[float, Above(0)] = 0.6
    around: bool = False
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.around and self.bars < 3:
            raise InputError(f"bars={self.bars} cannot form a polygon; set bars to 3 or more, or around=false")

    def read(self) -> Dataset:
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


@dataclass(frozen=True)
class Spirals(Included):
    """Arm j is (t sin(t + 2 pi j / arms), t cos(t + 2 pi j / arms)), t from pi/4 to 4 pi, with Gaussian noise.

    Attributes:
        arms: number of arms, which are the classes.
        points: number of points per arm.
        noise: standard deviation in both coordinates, whose largest absolute value is about 12.6.
        seed: seed of the noise.
    """

    name = "spirals"

    arms: Annotated[int, AtLeast(1)] = 5
    points: Annotated[int, AtLeast(2)] = 400
    noise: Annotated[float, AtLeast(0)] = 0.1
    seed: Annotated[int, AtLeast(0)] = 0

    def read(self) -> Dataset:
        t = (4 * np.pi - np.pi / 4) * np.linspace(0, 1, self.points) ** 0.65 + np.pi / 4
        angles = t + 2 * np.pi * np.arange(self.arms)[:, None] / self.arms
        values = np.stack([t * np.sin(angles), t * np.cos(angles)], axis=2).reshape(-1, 2)
        values += self.noise * stream(self.seed, "spirals").standard_normal(values.shape)
        labels = np.repeat(np.arange(self.arms, dtype=np.int64), self.points)
        return Dataset(values.astype(np.float32), labels, tuple(map(str, range(self.arms))), ("x", "y"))


@dataclass(frozen=True)
class Predictions(Included):
    """Normal scores, whose softmax are the predictions, with one column per class. There are no true classes.

    Attributes:
        classes: number of classes.
        entries: total number of scores; the number of points is entries / classes, rounded up, and at least two.
        sharpness: standard deviation of the scores.
        offset: standard deviation of the class means; above 0 the class sizes are unequal.
        seed: seed of the scores.
    """

    name = "predictions"

    classes: Annotated[int, AtLeast(2)] = 20
    entries: Annotated[int, AtLeast(4)] = 1000
    sharpness: Annotated[float, AtLeast(0)] = 3.0
    offset: Annotated[float, AtLeast(0)] = 0.0
    seed: Annotated[int, AtLeast(0)] = 0

    def read(self) -> Dataset:
        rng = stream(self.seed, "predictions")
        scores = self.sharpness * rng.standard_normal((max(2, self.entries // self.classes), self.classes))
        scores += self.offset * rng.standard_normal(self.classes)
        return Dataset(scores.astype(np.float32), None, tuple(map(str, range(self.classes))))
