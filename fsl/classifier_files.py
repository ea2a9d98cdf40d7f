"""Files of saved classifiers: what may be replaced, and whether what is read is whole."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.tensor_headers import read_header
from clustering.foundation.errors import InputError

FORMAT = "transduce classifier 1"
REMEDY = "give a file that FewShotClassifier.save or `transduce classify --save` wrote"


def check_replaceable(path: Path) -> None:
    """Check that nothing is written over but an older classifier.

    Raises:
        InputError: another file is there.
    """
    if path.exists() and path.stat().st_size:  # an empty file has nothing to lose
        remedy = "only an older classifier is replaced; give another place"
        if "classifier" not in read_header(path, remedy, FORMAT):  # networks were once of this format, too
            raise InputError(f"{path}: holds another thing than a classifier; {remedy}")


def described(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    """What a file says beside its tensors, each of its type.

    Raises:
        InputError: something is missing or of another type.
    """
    try:
        about = json.loads(header["classifier"])
        classes, refined_by = about["classes"], about["refined_by"]
        kinds = {type(name) for name in classes}
        whole = (
            len(kinds) == 1
            and isinstance(classes, list)
            and kinds <= {str, int, float, bool}
            and np.array_equal(np.unique(classes), classes)
            and type(refined_by) is int
            and refined_by >= 0
            and isinstance(about["strategy"], str)
            and isinstance(about["fields"], dict)
            and all(isinstance(about[name], str | None) for name in ("backbone", "weights", "encoder"))
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no whole classifier ({type(error).__name__} in its header); {REMEDY}") from error
    if not whole:
        raise InputError(f"{path}: is no whole classifier (its header is damaged); {REMEDY}")
    return dict(about)


def check_whole(
    path: Path,
    classes: int,
    support: NDArray[Any],
    labels: NDArray[Any],
    base_mean: NDArray[Any],
    prototypes: NDArray[Any],
) -> None:
    """Check that the parts of a file fit each other.

    Args:
        path: the file.
        classes: K.
        support: (S, D) features.
        labels: (S,) their classes 0..K-1.
        base_mean: (D,).
        prototypes: (K, D).

    Raises:
        InputError: they do not.
    """
    whole = (
        support.ndim == 2
        and support.dtype in (np.float32, np.float64)
        and labels.shape == support.shape[:1]
        and labels.dtype == np.int64
        and np.array_equal(np.unique(labels), np.arange(classes))
        and classes > 1
        and base_mean.shape == support.shape[1:]
        and prototypes.shape == (classes, support.shape[1])
        and all(np.isfinite(part).all() for part in (support, base_mean, prototypes))
        and base_mean.dtype == prototypes.dtype == support.dtype
    )
    if not whole:
        raise InputError(f"{path}: is no whole classifier (its parts do not fit each other); {REMEDY}")
