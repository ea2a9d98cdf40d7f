"""Filled shapes: one .npz file for each split."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import SPLITS, Decoded, Split, fingerprint


@dataclass(frozen=True)
class Shapes:
    """Filled shapes, grey, 28 x 28.

    Attributes:
        root: folder with base.npz, validation.npz and novel.npz. No part of a run's identity; their content is.
    """

    name: ClassVar[str] = "shapes"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    mean: ClassVar[tuple[float, ...]] = (0.5,)  # of the base pixels scaled to 0..1
    std: ClassVar[tuple[float, ...]] = (0.3,)
    augmentation: ClassVar[Augmentation] = Augmentation(rotation=10, translation=0.1)

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        """Identity of the images. It must be quick: nothing is decoded here."""
        return fingerprint(*(self._file(split).read_bytes() for split in SPLITS))

    def read(self, split: Split) -> Decoded:
        """Images uint8 (N, 1, 28, 28), int64 labels 0..K-1, K names. The result is cached."""
        with np.load(self._file(split)) as arrays:
            return Decoded(arrays["images"], arrays["labels"], tuple(arrays["names"].tolist()))

    def _file(self, split: Split) -> Path:
        path = Path(self.root or "") / f"{split}.npz"
        if self.root is None or not path.is_file():
            raise InputError(f"benchmark shapes: no {path}; give root=FOLDER, the folder with {split}.npz")
        return path
