"""Random class scores without a model, for methods that assign points by such scores."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.memory import require
from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream

RECIPE = 1  # increase it when other scores would be generated


@dataclass(frozen=True)
class Predictions:
    """Normal scores, whose softmax are the predictions, with one column per class. There are no true classes.

    Attributes:
        classes: number of classes.
        entries: total number of scores; the number of points is entries / classes, rounded up, and at least two.
        sharpness: standard deviation of the scores.
        offset: standard deviation of the class means; above 0 the class sizes are unequal.
        seed: seed of the scores.
    """

    name: ClassVar[str] = "predictions"

    classes: Annotated[int, AtLeast(2)] = 20
    entries: Annotated[int, AtLeast(4)] = 1000
    sharpness: Annotated[float, AtLeast(0)] = 3.0
    offset: Annotated[float, AtLeast(0)] = 0.0
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint("predictions", RECIPE)

    def read(self) -> Dataset:
        require(
            f"dataset predictions, classes={self.classes} entries={self.entries}",
            {"values": 20 * max(2 * self.classes, self.entries)},
            "reduce classes or entries",
        )
        rng = stream(self.seed, "predictions")
        scores = self.sharpness * rng.standard_normal((max(2, self.entries // self.classes), self.classes))
        scores += self.offset * rng.standard_normal(self.classes)
        return Dataset(scores.astype(np.float32), None, tuple(map(str, range(self.classes))))
