"""Conversion of arrays of other programs to the tensors of a feature bank."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clustering.estimator_input import check_not_vanishing
from clustering.foundation.errors import InputError, unknown
from fsl.features.arrays import decoded

Array = NDArray[Any]


def converted(
    features: Array,
    labels: Array | None,
    names: tuple[str, ...] | None,
    base_mean: Array | None,
    text: Array | None,
) -> dict[str, Any]:
    """The tensors and class names of a feature bank, see `FeatureBank.from_arrays`.

    Raises:
        InputError: labels, class names and text do not fit the features or each other; values all vanish, or are zero
            in a row that needs a cosine; or two classes have the same name.
    """
    numbers, names = _numbered(labels, len(features), names, None if text is None else len(text))
    if features.dtype.kind == "f":
        check_not_vanishing(float(np.abs(features).max()), np.float32)
    if text is not None:
        _check_text(features, text, len(names))
        features, text = _unit(features), _unit(text)
    with np.errstate(over="ignore"):  # values that overflow float32 are rejected as infinite
        arrays = {
            name: None if array is None else torch.from_numpy(np.require(array, np.float32, ["C", "W"]))
            for name, array in {"features": features, "text": text, "base_mean": base_mean}.items()
        }
    lost = ~features.any(axis=1)
    if text is not None and lost.any():
        raise InputError(f"features are too large or too small to be squared: row {int(lost.argmax())}; rescale them")
    return {**arrays, "labels": torch.from_numpy(numbers), "class_names": names}


def _numbered(
    given: Array | None, rows: int, names: tuple[str, ...] | None, texts: int | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels 0..K-1 of so many rows, and the names of the classes; `texts` is the number of texts, if there are any."""
    if given is None:
        raise InputError("features without labels; give labels, one per row, or the name of their column")
    if given.shape != (rows,):
        raise InputError(f"{rows} features have labels of shape {given.shape}; store one label per feature")
    if given.dtype.kind not in "biufSU":
        raise InputError(f"labels must be integers or strings, not {given.dtype}")
    values, labels = np.unique(decoded(given), return_inverse=True)
    if values.dtype.kind == "f":
        wrong = values[(values != np.trunc(values)) | ~(np.abs(values) < 2**53)]
        if len(wrong):
            raise InputError(f"labels must be integers or strings, but one is {wrong[0]}; remove rows without a label")
        values = values.astype(np.int64)
    if names is None and texts is None:
        names = tuple(map(str, values.tolist()))
    else:
        names = tuple(map(str, range(texts or 0))) if names is None else names
        if values.dtype.kind == "U":
            strange = next((label for label in values.tolist() if label not in names), None)
            if strange is not None:
                raise InputError(
                    f"labels must be class names, or their numbers from 0: {unknown('label', strange, names)}"
                )
            values = np.array([names.index(label) for label in values.tolist()])
        if values.min() < 0 or values.max() >= len(names):
            raise InputError(
                f"labels run from {values.min()} to {values.max()}, but there are {len(names)} class names, whose "
                "numbers begin at 0; give one name per class"
            )
        labels = values.astype(np.int64)[labels]
        if texts is None:  # without the classes that have no images
            kept, labels = np.unique(labels, return_inverse=True)
            names = tuple(names[number] for number in kept)
    if len({*names}) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two classes are called {duplicate!r}; use distinct names, or the same label for both")
    return labels.astype(np.int64), names


def _check_text(features: Array, text: Array, count: int) -> None:
    """Check that features of images and of `count` class names fit each other and have cosines."""
    for what, rows in (("features", features), ("text", text)):
        if rows.dtype.kind != "f":
            raise InputError(
                f"{what} must be numbers with a fraction, not {rows.dtype}, so that cosines of images and class names "
                "can be computed; save the output of the network as floats"
            )
    if text.shape[1] != features.shape[1]:
        turned = "; save its transpose, one row per class" if text.shape[0] == features.shape[1] else ""
        raise InputError(
            f"features of images have {features.shape[1]} numbers, those of class names {text.shape[1]}{turned}; give "
            "both from one network"
        )
    if len(text) != count:
        raise InputError(f"text has {len(text)} rows for {count} class names; give one row per name, in their order")
    empty = ~features.any(axis=1)
    if empty.any():
        raise InputError(f"features are all zero in row {int(empty.argmax())}, which has no cosine; remove the row")


def _unit(rows: Array) -> Array:
    """Rows of unit length in their own precision; zero rows are unchanged."""
    stored = torch.from_numpy(rows)
    lengths = stored.norm(dim=1, keepdim=True)
    unit: Array = (stored / torch.where(lengths > 0, lengths, torch.ones_like(lengths))).numpy()
    return unit
