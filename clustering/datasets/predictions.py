"""Predictions of no model: scores of classes, drawn at random, for methods that assign points by such scores."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.memory import require
from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream

RECIPE = 1  # raised whenever other scores are given


@dataclass(frozen=True)
class Predictions:
    """Normal scores, whose softmax are the predictions: a column for each class. What is true is not known.

    Attributes:
        classes: how many.
        entries: scores in all; there are as many points as make them up, and two at least.
        sharpness: standard deviation of the scores.
        offset: standard deviation of the classes' means: where it is above 0 sizes are unequal.
        seed: of the scores.
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
            "give fewer classes or entries",
        )
        rng = stream(self.seed, "predictions")
        scores = self.sharpness * rng.standard_normal((max(2, self.entries // self.classes), self.classes))
        scores += self.offset * rng.standard_normal(self.classes)
        return Dataset(scores.astype(np.float32), None, tuple(map(str, range(self.classes))))
