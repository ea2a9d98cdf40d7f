"""Long bars side by side: clusters that lie closer to each other than their ends do."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.fingerprint import fingerprint
from clustering.parameters import Above, AtLeast, validate
from clustering.streams import stream

RECIPE = 1  # raised whenever other points are given


@dataclass(frozen=True)
class Bars:
    """Points uniform in horizontal bars, one above the other: K-means cuts them across, a wide margin lies between.

    Attributes:
        bars: how many; the classes.
        points: of each.
        length: of a bar. thickness: of a bar. gap: between two.
        seed: of the points.
    """

    name: ClassVar[str] = "bars"

    bars: Annotated[int, AtLeast(1)] = 2
    points: Annotated[int, AtLeast(2)] = 200
    length: Annotated[float, Above(0)] = 12.0
    thickness: Annotated[float, Above(0)] = 1.0
    gap: Annotated[float, Above(0)] = 0.6
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint("bars", RECIPE)

    def read(self) -> Dataset:
        rng = stream(self.seed, "bars")
        labels = np.repeat(np.arange(self.bars), self.points)
        middle = (labels - (self.bars - 1) / 2) * (self.thickness + self.gap)
        along = rng.uniform(-self.length / 2, self.length / 2, len(labels))
        values = np.stack([along, middle + rng.uniform(-self.thickness / 2, self.thickness / 2, len(labels))], axis=1)
        return Dataset(values.astype(np.float32), labels.astype(np.int64), tuple(map(str, range(self.bars))))
