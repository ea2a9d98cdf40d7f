"""Features that a network learned: a feature bank, as trainings and extractions here write it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import fingerprint_of
from clustering.errors import InputError
from clustering.parameters import validate
from clustering.seals import check_seal

RECIPE = 1  # raised whenever the same file gives other points
FORMAT = "transduce features 1"  # of `fsl.features.FeatureBank`
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
        import safetensors

        path = self._file()
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                header = dict(file.metadata() or {})
                if header.get("format") != FORMAT:
                    raise InputError(
                        f"dataset features: {path} holds {header.get('format', 'other tensors')!r}, and no feature bank"
                    )
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            values, labels = tensors["features"], tensors["labels"]
            check_seal(
                path,
                {name: torch.from_numpy(one) for name, one in tensors.items()},
                header,
                "train again with --force, or fetch it again",
            )
            names, provenance = json.loads(header["class_names"]), json.loads(header["provenance"])
        except InputError:
            raise
        except Exception as error:  # what safetensors raises for a damaged file cannot be listed
            raise InputError(f"dataset features: {path} cannot be read ({error}); make it again") from error
        if provenance.get("labels") == FOUND:
            return Dataset(values)
        present, of_class = np.unique(labels, return_inverse=True)
        return Dataset(values, of_class.astype(np.int64), tuple(names[k] for k in present), told=tensors.get("told"))

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
