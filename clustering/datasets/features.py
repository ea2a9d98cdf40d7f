"""Features: a feature bank as written by trainings and extractions of this package, or arrays of another program."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset, check, numbered
from clustering.files.arrays import open_arrays
from clustering.files.regular import fingerprint_of_files
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Validated

RECIPE = 1  # increase it when the same file would give other points
FORMAT = "transduce features 1"  # format of `fsl.features.bank.FeatureBank`
OWN = "transduce"  # how the formats of this package begin
AGAIN = "create it again with --force, or download it again"
FOUND = "clusters found"  # provenance of labels that are clusters rather than classes


@dataclass(frozen=True)
class Features(Validated):
    """The rows of a feature bank (.safetensors), or of an array of another program, with their classes if it has them.

    Attributes:
        path: the file: .safetensors, .npy, .npz, .pt or .parquet. Its content is part of a run's identity, its location
            is not.
        column: array or column of the features in a file of another program, see
            `clustering.feature_files.read_features`. Its labels are the array `labels` or `label`, if there is one.
    """

    name: ClassVar[str] = "features"

    path: str | None = None
    column: str | None = None

    def source(self) -> str:
        return fingerprint_of_files([self._file()], "features", RECIPE, *([self.column] if self.column else []))

    def read(self) -> Dataset:
        from clustering.files.tensors import read_header, read_tensors

        path = self._file()
        if path.suffix.lower() != ".safetensors" or not read_header(path, AGAIN).get("format", "").startswith(OWN):
            return self._of_arrays(path)
        if self.column is not None:
            raise InputError(f"column={self.column}: {path} is a feature bank, which has no others; omit it")
        tensors, header = read_tensors(path, FORMAT, AGAIN)
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
            raise InputError(f"{path}: not a complete feature bank ({error}); {AGAIN}") from error
        return Dataset(values) if provenance.get("labels") == FOUND else bank

    def _of_arrays(self, path: Path) -> Dataset:
        from clustering.estimator_input import check_no_gap, float_kinds, of_one_type
        from clustering.feature_files import LABELS, decoded, label_name, naming, pick_features

        arrays = open_arrays(path)
        with naming(path):
            values = pick_features(arrays, self.column)
            kinds = float_kinds(values)
            values = values if values.dtype in kinds else values.astype(kinds[0])
            label = label_name(arrays, LABELS, None, "label_column")
            if label is None:
                return Dataset(values)
            labels = decoded(of_one_type(arrays.read([label])[label], label))
            if labels.shape != values.shape[:1]:
                raise InputError(f"{len(values):,} rows of features, but {label!r} has shape {labels.shape}; mend it")
            check_no_gap(labels, label)
            if "class_names" in arrays.kinds and labels.dtype.kind in "iu" and not arrays.table:
                names = decoded(arrays.read(["class_names"])["class_names"])
                if 0 <= labels.min() and labels.max() < len(names):
                    labels = names[labels]
        return Dataset(values, *numbered(labels))

    def _file(self) -> Path:
        """Path of the file.

        Raises:
            InputError: no file was named, or it does not exist.
        """
        if not self.path:
            raise InputError(
                "dataset features: no file given; add path=FILE, an array of features (.npy, .npz, .pt, .parquet) or a "
                "feature bank. `transduce cluster network=small_cnn` prints the path of the one that it writes"
            )
        path = Path(self.path).expanduser()
        if not path.is_file():
            raise InputError(f"dataset features: no file {path}; set path=FILE to an array or a feature bank")
        return path
