"""Features that a network learned: a feature bank, as trainings and extractions here write it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import fingerprint_of
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate

RECIPE = 1  # raised whenever the same file gives other points
FORMAT = "transduce features 1"  # of `fsl.features.bank.FeatureBank`
FOUND = "clusters found"  # what the provenance says of labels that are no classes


@dataclass(frozen=True)
class Features:
    """The rows of a feature bank (.safetensors), with its classes.

    Attributes:
        path: the file. No part of a run's identity; what is in it is.
    """

    name: ClassVar[str] = "features"

    path: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of("features", RECIPE, [self._file()])

    def read(self) -> Dataset:
        from clustering.files.tensors import read_tensors

        path = self._file()
        remedy = "make it again with --force, or fetch it again"
        tensors, header = read_tensors(path, FORMAT, remedy)
        try:
            values, labels = tensors["features"].numpy(), tensors["labels"].numpy()
            told = tensors["told"].numpy() if "told" in tensors else None
            names, provenance = json.loads(header["class_names"]), dict(json.loads(header["provenance"]))
            present, of_class = np.unique(labels, return_inverse=True)
            if present[0] < 0 or labels.shape != values.shape[:1] or (told is not None and told.shape != labels.shape):
                raise ValueError("its parts do not fit each other")
            if values.ndim != 2 or values.dtype.kind != "f" or labels.dtype.kind not in "iu":
                raise ValueError(f"features are {values.dtype} {values.shape}, labels {labels.dtype} {labels.shape}")
            classes = tuple(names[k] for k in present)
        except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: not a complete feature bank ({error}); {remedy}") from error
        if provenance.get("labels") == FOUND:
            return Dataset(values)
        return Dataset(values, of_class.astype(np.int64), classes, told=told)

    def _file(self) -> Path:
        """Where it is.

        Raises:
            InputError: it was not said, or it is not there.
        """
        if not self.path:
            raise InputError(
                "dataset features: no file given; add path=FILE.safetensors, which a training with network=small_cnn "
                "names in its last lines"
            )
        path = Path(self.path).expanduser()
        if not path.is_file():
            raise InputError(f"dataset features: no file {path}; give path=FILE.safetensors, a feature bank")
        return path
