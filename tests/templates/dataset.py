"""Rings around one centre, which no prototype represents."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream


@dataclass(frozen=True)
class Rings:
    """Rings of radius 1, 2, ...

    Attributes:
        rings: number of rings, the classes.
        points: points of each ring.
    """

    name: ClassVar[str] = "rings"

    rings: Annotated[int, AtLeast(1)] = 3
    points: Annotated[int, AtLeast(2)] = 200

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        """Identity of the points; it changes when they would.

        For files: `clustering.files.regular.fingerprint_of_files`.
        """
        return fingerprint("rings", 1)

    def read(self) -> Dataset:
        """Values (N, D) float32 or scipy CSR, int64 labels 0..C-1 (or None), C names."""
        labels = np.repeat(np.arange(self.rings), self.points)
        angles = stream(0, "rings").uniform(0, 2 * np.pi, len(labels))
        values = (labels + 1)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return Dataset(values.astype(np.float32), labels, tuple(str(ring) for ring in range(self.rings)))
