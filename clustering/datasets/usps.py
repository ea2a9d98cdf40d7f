"""USPS: 9,298 hand-written digits of postal codes, 16 x 16 grey (Hull 1994)."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import Part, files_of, fingerprint_of, open_bytes, rows_and_classes
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same files would give other points
FORMS = ("usps.npz",), ("zip.train", "zip.test"), ("usps.bz2", "usps.t.bz2"), ("usps", "usps.t")
WANTED = "usps.npz, or zip.train.gz and zip.test.gz, or usps.bz2 and usps.t.bz2 of LIBSVM"


@dataclass(frozen=True)
class USPS:
    """9,298 points of 256 grey values in [0, 1], 10 classes: training images first, then test.

    Attributes:
        root: folder with usps.npz, with zip.train and zip.test (compressed or not), or with LIBSVM's usps.bz2 and
            usps.t.bz2.
    """

    name: ClassVar[str] = "usps"

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, self._files())

    def read(self) -> Dataset:
        paths = self._files()
        values, classes = rows_and_classes(self.name, paths, _part)
        if values.shape != (9298, 256) or classes.shape != (9298,):
            raise InputError(
                f"dataset usps: {paths[0]} has images {values.shape}, but USPS has (9298, 256); download it again"
            )
        labels, names = numbered(classes.astype(np.int64))
        return Dataset(_grey(values), labels, names, picture=(16, 16))

    def _files(self) -> list[Path]:
        return files_of(self.name, self.root, WANTED, *FORMS)


def _grey(values: NDArray[Any]) -> NDArray[np.float32]:
    """Values in [0, 1], from integers in [0, 2000], as is usual for USPS, or from floats in [-1, 1]."""
    if np.issubdtype(values.dtype, np.integer):
        return (values / 2000).astype(np.float32)
    return (values if values.min() >= 0 else (values + 1) / 2).astype(np.float32)


def _part(path: Path) -> Part:
    return _libsvm(path) if path.name.startswith("usps") else _rows(path)


def _rows(path: Path) -> Part:
    """Lines with a digit and 256 numbers."""
    table = np.loadtxt(open_bytes(path).decode().splitlines())
    return table[:, 1:], table[:, 0]


def _libsvm(path: Path) -> Part:
    """Lines with a digit plus one, and column:value pairs."""
    from sklearn.datasets import load_svmlight_file

    with io.BytesIO(open_bytes(path)) as file:
        values, classes = load_svmlight_file(file, n_features=256)
    return values.toarray(), classes - 1
