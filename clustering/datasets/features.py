"""Learned features, read from a feature bank as written by trainings and extractions of this package."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset, check
from clustering.files.regular import fingerprint_of_files
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Validated

RECIPE = 1  # increase it when the same file would give other points
FORMAT = "transduce features 1"  # format of `fsl.features.bank.FeatureBank`
FOUND = "clusters found"  # provenance of labels that are clusters rather than classes


@dataclass(frozen=True)
class Features(Validated):
    """The rows of a feature bank (.safetensors), with its classes.

    Attributes:
        path: the file. Its content is part of a run's identity, its location is not.
    """

    name: ClassVar[str] = "features"

    path: str | None = None

    def source(self) -> str:
        return fingerprint_of_files([self._file()], "features", RECIPE)

    def read(self) -> Dataset:
        from clustering.files.tensors import read_tensors

        path = self._file()
        remedy = "create it again with --force, or download it again"
        tensors, header = read_tensors(path, FORMAT, remedy)
        try:
            values, labels = tensors["features"].numpy(), tensors["labels"].numpy()
            given_labels = tensors["told"].numpy() if "told" in tensors else None
            names, provenance = json.loads(header["class_names"]), dict(json.loads(header["provenance"]))
            present, of_class = np.unique(labels, return_inverse=True)
            classes = tuple(names[k] for k in present)
            if (
                values.dtype.kind != "f"
                or present[0] < 0
                or (given_labels is not None and given_labels.shape != labels.shape)
            ):
                raise ValueError(f"features are {values.dtype} {values.shape}, labels {labels.dtype} {labels.shape}")
            bank = Dataset(values, of_class.astype(np.int64), classes, told=given_labels)
            check("features", bank)
        except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: not a complete feature bank ({error}); {remedy}") from error
        return Dataset(values) if provenance.get("labels") == FOUND else bank

    def _file(self) -> Path:
        """Path of the file.

        Raises:
            InputError: no file was named, or it does not exist.
        """
        if not self.path:
            raise InputError(
                "dataset features: no file given; add path=FILE.safetensors, a feature bank. `transduce cluster "
                "network=small_cnn` prints the path of the one that it writes"
            )
        path = Path(self.path).expanduser()
        if not path.is_file():
            raise InputError(f"dataset features: no file {path}; set path=FILE.safetensors to a feature bank")
        return path
