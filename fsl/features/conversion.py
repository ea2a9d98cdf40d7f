"""Conversion of arrays of other programs to what a feature bank has: numbered labels, unit rows, tensors."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.feature_files import decoded
from clustering.foundation.errors import InputError, unknown

Array = NDArray[Any]


def numbered(
    labels: Array | None, rows: int, names: tuple[str, ...] | None, texts: int | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels 0..K-1 of so many rows, and the K class names.

    Args:
        labels: integers or names; with class names or texts, indices into these or the names themselves.
        rows: number of rows.
        names: class names; None: the labels themselves, or the numbers of the texts.
        texts: number of texts; None: there are none, and classes without rows are left out.

    Raises:
        InputError: the labels do not fit the rows or the names, or two classes have the same name.
    """
    if labels is None:
        raise InputError("features without labels; give labels, one per row, or the name of their column")
    if labels.shape != (rows,):
        raise InputError(f"{rows} features have labels of shape {labels.shape}; store one label per feature")
    if labels.dtype.kind not in "biufSU":
        raise InputError(f"labels must be integers or strings, not {labels.dtype}")
    values, places = np.unique(decoded(labels), return_inverse=True)
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
        places = values.astype(np.int64)[places]
        if texts is None:
            kept, places = np.unique(places, return_inverse=True)
            names = tuple(names[number] for number in kept)
    if len({*names}) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two classes are called {duplicate!r}; use distinct names, or the same label for both")
    return places.astype(np.int64), names


def check_text(features: Array, text: Array, count: int) -> None:
    """Raise InputError unless features of images and of `count` class names fit each other and have cosines."""
    for what, rows in (("features", features), ("text", text)):
        if rows.dtype.kind != "f":
            raise InputError(
                f"{what} must be numbers with a fraction, not {rows.dtype}, so that cosines of images and class names "
                "can be computed; save the output of the network as floats"
            )
    if text.shape != (count, features.shape[1]):
        turned = "save its transpose, one row per name" if text.shape[0] == features.shape[1] else "use one network"
        raise InputError(
            f"text has {text.shape[0]} rows of {text.shape[1]} numbers for {count} class names and features of "
            f"{features.shape[1]} numbers; {turned}"
        )
    empty = ~features.any(axis=1)
    if empty.any():
        raise InputError(f"features are all zero in row {int(empty.argmax())}, which has no cosine; remove the row")


def unit(rows: Array) -> Array:
    """Rows of unit length in their own precision; zero rows are unchanged.

    Raises:
        InputError: the squares of a row overflow.
    """
    stored = torch.from_numpy(rows)
    lengths = stored.norm(dim=1, keepdim=True)
    scaled: Array = (stored / torch.where(lengths > 0, lengths, torch.ones_like(lengths))).numpy()
    lost = rows.any(axis=1) & ~scaled.any(axis=1)
    if lost.any():
        raise InputError(f"features are too large or too small to be squared: row {int(lost.argmax())}; rescale them")
    return scaled


def single(array: Array) -> Tensor:
    """The array in float32; values that overflow it become infinite."""
    with np.errstate(over="ignore"):
        return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))
