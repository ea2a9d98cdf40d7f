"""Checks for files of saved classifiers: which files may be overwritten, and whether a file is complete."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.tensor_headers import read_header
from clustering.foundation.errors import InputError

FORMAT = "transduce classifier 1"
REMEDY = "give a file written by FewShotClassifier.save or `transduce classify --save`"


def check_replaceable(path: Path) -> None:
    """Check that only a classifier would be overwritten.

    Raises:
        InputError: another file exists at the path.
    """
    if path.exists() and path.stat().st_size:  # an empty file has nothing to lose
        remedy = "only classifiers are overwritten; give another path"
        if "classifier" not in read_header(path, remedy, FORMAT):  # networks once had this format too
            raise InputError(f"{path}: exists, and is not a classifier; {remedy}")


def described(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    """The validated JSON header of a file.

    Raises:
        InputError: an entry is missing or has a wrong type.
    """
    try:
        description = json.loads(header["classifier"])
        classes, refined_by = description["classes"], description["refined_by"]
        kinds = {type(name) for name in classes}
        is_valid = (
            len(kinds) == 1
            and isinstance(classes, list)
            and kinds <= {str, int, float, bool}
            and np.array_equal(np.unique(classes), classes)
            and type(refined_by) is int
            and refined_by >= 0
            and type(description.get("logit_scale", 1.0)) in (int, float)
            and 0 < description.get("logit_scale", 1.0) < math.inf
            and isinstance(description["strategy"], str)
            and isinstance(description["fields"], dict)
            and all(isinstance(description[name], str | None) for name in ("backbone", "weights", "encoder"))
            and isinstance(description.get("prompts"), list | None)
            and all(isinstance(prompt, str) for prompt in description.get("prompts") or ())
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a complete classifier ({type(error).__name__} in header); {REMEDY}") from error
    if not is_valid:
        raise InputError(f"{path}: not a complete classifier (its header is damaged); {REMEDY}")
    return dict(description)


def check_whole(path: Path, classes: int, arrays: Mapping[str, NDArray[Any] | None]) -> None:
    """Check that the arrays of a file are consistent.

    Args:
        path: the file.
        classes: number of classes K.
        arrays: support (S, D), support_labels (S,) in 0..K-1, and base_mean (D,), prototypes (K, D) and text (K, D),
            which are None if absent. Without text, only text is absent, and each class has a support example.

    Raises:
        InputError: shapes, dtypes or values are inconsistent.
    """
    support, labels = arrays["support"], arrays["support_labels"]
    assert support is not None
    assert labels is not None
    present, dimension = np.unique(labels), support.shape[1:]
    shapes = {"base_mean": dimension, "prototypes": (classes, *dimension), "text": (classes, *dimension)}
    real = [support]
    is_valid = support.ndim == 2 and labels.shape == support.shape[:1] and labels.dtype == np.int64 and classes > 1
    for name, shape in shapes.items():
        array = arrays[name]
        if array is not None:
            is_valid = is_valid and array.shape == shape
            real.append(array)
    is_valid = is_valid and all(array.dtype == support.dtype and bool(np.isfinite(array).all()) for array in real)
    is_valid = is_valid and support.dtype in (np.float32, np.float64)
    if arrays["text"] is None:
        is_valid = is_valid and len(real) == 3 and np.array_equal(present, np.arange(classes))
    if not is_valid or not np.isin(present, np.arange(classes)).all():
        raise InputError(f"{path}: not a complete classifier (its tensors are inconsistent); {REMEDY}")
