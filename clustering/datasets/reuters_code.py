"""Reuters (code): news of RCV1 as ten numbers of an auto-encoder (SpectralNet, Shaham et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import fingerprint_of
from clustering.datasets.stored_features import stored_features, stored_file
from clustering.foundation.parameters import validate

RECIPE = 1  # raised whenever the same file gives other points
WHAT = "codes of 685,071 documents with one root topic, by SpectralNet's auto-encoder"


@dataclass(frozen=True)
class ReutersCode:
    """685,071 points of 10 numbers, 4 topics. They need the trained auto-encoder: the file has to be brought.

    Attributes:
        root: folder with reuters_code.npz or reuters_code.mat, which holds x (N, 10) and y (N,).
    """

    name: ClassVar[str] = "reuters_code"

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [stored_file(self.name, self.root, "reuters_code", WHAT)])

    def read(self) -> Dataset:
        path = stored_file(self.name, self.root, "reuters_code", WHAT)
        return stored_features(self.name, path, dimensions=10, classes=4)
