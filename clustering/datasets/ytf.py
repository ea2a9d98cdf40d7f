"""YTF: crops of YouTube Faces (Wolf, Hassner and Maoz 2011), as in Table 2.1 of the thesis."""

from dataclasses import dataclass
from typing import ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import fingerprint_of
from clustering.datasets.stored_features import stored_features, stored_file
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same file would give other points
WHAT = "10,036 faces of 40 people, 55 x 55 x 3 values each"


@dataclass(frozen=True)
class YTF:
    """10,036 points of 9,075 raw values, 40 people. The selection of images is not published: you must provide the
    file.

    Attributes:
        root: folder with ytf.npz or ytf.mat, which contains x (N, 9075) and y (N,).
    """

    name: ClassVar[str] = "ytf"

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [stored_file(self.name, self.root, "ytf", WHAT)])

    def read(self) -> Dataset:
        path = stored_file(self.name, self.root, "ytf", WHAT)
        return stored_features(self.name, path, dimensions=9075, classes=40)
