"""Reuters (code): news of RCV1 as ten outputs of an auto-encoder (SpectralNet, Shaham et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import fingerprint_of
from clustering.datasets.stored_features import stored_features, stored_file
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same file would give other points
WHAT = "codes of the 685,071 documents with a single root topic, by the auto-encoder of SpectralNet"


@dataclass(frozen=True)
class ReutersCode:
    """685,071 points of 10 numbers, 4 topics. The trained auto-encoder is not included: you must provide the file.

    Attributes:
        root: folder with reuters_code.npz or reuters_code.mat, which contains x (N, 10) and y (N,).
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
