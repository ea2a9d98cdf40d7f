"""Data sets whose published features cannot be computed here: the user provides a file NAME.npz or NAME.mat."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import arrays_of, damaged, fingerprint_of, first_of, folder_of, missing
from clustering.files.arrays import UNREADABLE
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same file would give other points
VALUES = ("x", "X", "data", "features", "fea", "codes")
CLASSES = ("y", "Y", "labels", "label", "gnd", "gt", "targets")


@dataclass(frozen=True)
class StoredFeatures:
    """A data set in one file.

    Attributes:
        root: folder with NAME.npz or NAME.mat, which contains x (N, dimensions) and y (N,).
    """

    name: ClassVar[str]
    what: ClassVar[str]  # description of the features, for messages
    dimensions: ClassVar[int]
    classes: ClassVar[int]

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [self._path()])

    def read(self) -> Dataset:
        _, _, dimensions = self._file()
        return stored_features(self.name, self._path(), dimensions, self.classes)

    def _path(self) -> Path:
        stem, description, _ = self._file()
        return stored_file(self.name, self.root, stem, description)

    def _file(self) -> tuple[str, str, int]:
        """Name of the file without suffix, description of the features, and their number."""
        return self.name, self.what, self.dimensions


class MNISTCode(StoredFeatures):
    """MNIST (code): 70,000 points of 10 outputs of an auto-encoder (SpectralNet, Shaham et al. 2018), 10 classes.

    Attributes:
        root: folder with mnist_code.npz or mnist_code.mat, which contains x (N, 10) and y (N,).
    """

    name = "mnist_code"
    what = "codes of the auto-encoder of variational deep embedding that SpectralNet uses"
    dimensions, classes = 10, 10


class MNISTGAN(StoredFeatures):
    """MNIST (GAN): 70,000 points of 256 features of a discriminator (Ziko, Granger and Ben Ayed 2018), 10 classes.

    Attributes:
        root: folder with mnist_gan.npz or mnist_gan.mat, which contains x (N, 256) and y (N,).
    """

    name = "mnist_gan"
    what = "features of the discriminator of a GAN trained on MNIST (data/mnist_gan.npz of the authors' repository SLK)"
    dimensions, classes = 256, 10


class ReutersCode(StoredFeatures):
    """Reuters (code): 685,071 news of RCV1 as 10 outputs of an auto-encoder (Shaham et al. 2018), 4 topics.

    Attributes:
        root: folder with reuters_code.npz or reuters_code.mat, which contains x (N, 10) and y (N,).
    """

    name = "reuters_code"
    what = "codes of the 685,071 documents with a single root topic, by the auto-encoder of SpectralNet"
    dimensions, classes = 10, 4


class YTF(StoredFeatures):
    """YouTube Faces (Wolf, Hassner and Maoz 2011; thesis, Table 2.1): 10,036 crops of 9,075 raw values, 40 people.

    Attributes:
        root: folder with ytf.npz or ytf.mat, which contains x (N, 9075) and y (N,).
    """

    name = "ytf"
    what = "10,036 faces of 40 people, 55 x 55 x 3 values each"
    dimensions, classes = 9075, 40


@dataclass(frozen=True)
class LabelMe(StoredFeatures):
    """LabelMe: 2,688 outdoor scenes of 8 types (Oliva and Torralba 2001; thesis, Table 2.1).

    Attributes:
        root: folder with labelme_alexnet.npz (or .mat) or labelme_gist.npz, which contains x (N, D) and y (N,).
        features: alexnet: 4,096 outputs of a fully connected layer; gist: 44,604 values.
    """

    name = "labelme"
    classes = 8

    features: Literal["alexnet", "gist"] = "alexnet"

    def _file(self) -> tuple[str, str, int]:
        dimensions = {"alexnet": 4096, "gist": 44_604}[self.features]
        description = f"2,688 scenes of 8 kinds, {dimensions:,} {self.features} features each"
        return f"labelme_{self.features}", description, dimensions


def stored_file(name: str, root: str | None, stem: str, description: str) -> Path:
    """STEM.npz or STEM.mat in a folder.

    Args:
        name: name of the data set.
        root: the folder.
        stem: STEM.
        description: description of the features, for messages.

    Raises:
        InputError: there is no such file; the message says which file belongs where.
    """
    files = f"{stem}.npz or {stem}.mat: {description}, as x (N, D), and y (N,)"
    folder = folder_of(name, root, files)
    path = first_of(folder, f"{stem}.npz", f"{stem}.mat")
    if path is None:
        raise missing(name, folder, files)
    return path


def stored_features(name: str, path: Path, dimensions: int, classes: int) -> Dataset:
    """The rows and classes of such a file.

    Raises:
        InputError: the file is damaged, or has other numbers of dimensions or classes.
    """
    try:
        arrays = arrays_of(path)
    except UNREADABLE as error:
        raise damaged(name, path, error) from error
    names_in_file = [next((key for key in keys if key in arrays), None) for keys in (VALUES, CLASSES)]
    if None in names_in_file:
        listed = ", ".join(arrays) or "nothing"
        raise InputError(f"dataset {name}: {path} contains {listed}; rename the features to x and the classes to y")
    values, numbers = arrays[str(names_in_file[0])], arrays[str(names_in_file[1])].ravel()
    if values.ndim != 2 or values.shape[1] != dimensions or len(numbers) != len(values):
        raise InputError(
            f"dataset {name}: {path} holds {names_in_file[0]} {values.shape} and {names_in_file[1]} ({len(numbers)},), "
            f"not (N, {dimensions}) and (N,)"
        )
    labels, names = numbered(numbers)
    if len(names) != classes:
        raise InputError(f"dataset {name}: {path} has {len(names)} classes, not {classes}; download it again")
    return Dataset(values.astype(np.float32), labels, names)
