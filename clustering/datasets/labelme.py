"""LabelMe: 2,688 outdoor scenes (Oliva and Torralba 2001) as AlexNet or GIST features; thesis, Table 2.1."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import fingerprint_of
from clustering.datasets.stored_features import stored_features, stored_file
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same file would give other points
DIMENSIONS = {"alexnet": 4096, "gist": 44_604}


@dataclass(frozen=True)
class LabelMe:
    """2,688 points, 8 types of scenes. The features are not published: you must provide the file.

    Attributes:
        root: folder with labelme_alexnet.npz (or .mat) or labelme_gist.npz, which contains x (N, D) and y (N,).
        features: alexnet: 4,096 outputs of a fully connected layer; gist: 44,604 values.
    """

    name: ClassVar[str] = "labelme"

    root: str | None = None
    features: Literal["alexnet", "gist"] = "alexnet"

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [self._file()])

    def read(self) -> Dataset:
        return stored_features(self.name, self._file(), DIMENSIONS[self.features], classes=8)

    def _file(self) -> Path:
        what = f"2,688 scenes of 8 kinds, {DIMENSIONS[self.features]:,} {self.features} features each"
        return stored_file(self.name, self.root, f"labelme_{self.features}", what)
