"""Conversion of arrays of other programs to the tensors of a feature bank."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from clustering.estimator_input import check_no_dates, check_not_vanishing
from clustering.foundation.errors import InputError, unknown
from fsl.episodes import LOGIT_SCALE
from fsl.features.arrays import decoded


class Given(NamedTuple):
    """Arrays as another program wrote them.

    Attributes:
        features: (N, D) features of images.
        labels: (N,) integers or names; None: unknown.
        names: class names, by the number of the class.
        base_mean: (D,) mean of the raw features of the base classes.
        text: (K, D) features of the class names, in their order.
        logit_scale: factor of the cosines between images and class names.
        prompts: the words of the prompts of `text`, if they are known.
    """

    features: NDArray[Any]
    labels: NDArray[Any] | None
    names: tuple[str, ...] | None = None
    base_mean: NDArray[Any] | None = None
    text: NDArray[Any] | None = None
    logit_scale: float = LOGIT_SCALE
    prompts: tuple[str, ...] = ()


def converted(given: Given) -> dict[str, Any]:
    """The fields of a feature bank. With text, rows of images and texts are scaled to unit length in their own
    precision before they become float32.

    Raises:
        InputError: labels, class names and text do not fit the features or each other; values are dates, all vanish, or
            are zero in a row that needs a cosine; or two classes have the same name.
    """
    labels, names = _numbered(given)
    mean = given.base_mean
    check_no_dates(given.features, "its array of features")
    check_no_dates(mean, "base_mean")
    if given.features.dtype.kind == "f":
        check_not_vanishing(float(np.abs(given.features).max()), np.float32)
    with np.errstate(over="ignore"):  # values that overflow float32 are rejected as infinite
        stored = given.features if given.text is None else _unit(given.features)
        features = np.ascontiguousarray(stored, np.float32)
        lost = np.zeros(1, dtype=bool) if given.text is None else ~features.any(axis=1)
        if lost.any():
            raise InputError(
                f"features are too large or too small to be squared: row {int(lost.argmax())}; rescale them"
            )
        text = None if given.text is None else torch.from_numpy(_unit(given.text).astype(np.float32))
        mean = None if mean is None else np.array(mean, np.float32)
    return {
        "features": torch.from_numpy(features),
        "labels": torch.from_numpy(labels),
        "class_names": names,
        "base_mean": None if mean is None else torch.from_numpy(mean),
        "text": text,
        "logit_scale": given.logit_scale,
        "prompts": given.prompts,
    }


def _numbered(given: Given) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels 0..K-1 and the names of the classes."""
    if given.features.ndim != 2 or given.features.dtype.kind not in "fiu":
        raise InputError(f"features must be numbers of shape (N, D), not {given.features.dtype} {given.features.shape}")
    if given.labels is None:
        raise InputError("features without labels; give labels, one per row, or the name of their column")
    if given.labels.shape != given.features.shape[:1]:
        raise InputError(
            f"{len(given.features)} features have labels of shape {given.labels.shape}; store one label per feature"
        )
    if given.labels.dtype.kind not in "biufSU":
        raise InputError(f"labels must be integers or strings, not {given.labels.dtype}")
    values, labels = np.unique(decoded(given.labels), return_inverse=True)
    if given.names is not None and values.dtype.kind == "b":
        values = values.astype(np.int64)
    if values.dtype.kind == "f":
        wrong = values[(values != np.trunc(values)) | ~(np.abs(values) < 2**53)]
        if len(wrong):
            raise InputError(f"labels must be integers or strings, but one is {wrong[0]}; remove rows without a label")
        values = values.astype(np.int64)
    if given.names is not None and values.dtype.kind == "U":
        values = _places(values, given.names)
    if given.names is None and given.text is not None and len(values) != len(given.text):
        names, labels = _names_of(values, len(given.text)), values[labels]
    elif given.names is None:
        if given.text is not None and values.dtype.kind == "U":
            raise InputError("text without class names, whose order is unknown; give them, one per row of text")
        names = tuple(map(str, values.tolist()))
    elif values.dtype.kind not in "iu" or values[0] < 0 or values[-1] >= len(given.names):
        raise InputError(
            f"labels run from {values[0]} to {values[-1]}, but there are {len(given.names)} class names, whose "
            "numbers begin at 0; give one name per class"
        )
    elif given.text is not None:  # classes without images keep their names
        names, labels = given.names, values.astype(np.int64)[labels]
    else:
        names = tuple(given.names[int(value)] for value in values)
    duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        raise InputError(f"two classes are called {duplicate!r}; use distinct names, or the same label for both")
    if given.text is not None:
        _check_text(given.features, given.text, names)
    return labels.astype(np.int64), names


def _places(labels: NDArray[np.str_], names: tuple[str, ...]) -> NDArray[np.int64]:
    """Indices of labels, which are names or written integers, among the class names."""
    place = {name: number for number, name in enumerate(names)}
    strange = [label for label in labels.tolist() if label not in place]
    if not strange:
        return np.array([place[label] for label in labels.tolist()], dtype=np.int64)
    raise InputError(f"labels must be class names, or their numbers from 0: {unknown('label', strange[0], names)}")


def _names_of(values: NDArray[Any], count: int) -> tuple[str, ...]:
    """Names of the rows of text without class names: the integer labels."""
    if values.dtype.kind not in "iu" or values[0] < 0 or values[-1] >= count:
        raise InputError(
            f"text has {count} rows, but labels run from {values[0]} to {values[-1]}, so the classes of its rows are "
            "unknown; give the class names, one per row of text"
        )
    return tuple(map(str, range(count)))


def _check_text(features: NDArray[Any], text: NDArray[Any], names: tuple[str, ...]) -> None:
    """Check that features of images and class names fit each other and have cosines."""
    for what, rows in (("features", features), ("text", text)):
        if rows.ndim != 2 or rows.dtype.kind != "f":
            raise InputError(
                f"{what} must be numbers with a fraction, of shape (rows, D), not {rows.dtype} {rows.shape}, so that "
                "cosines of images and class names can be computed; save the output of the network as floats"
            )
    count, dimension = len(names), features.shape[1]
    if text.shape == (dimension, count) and count != dimension:
        raise InputError(f"text is of shape {text.shape}, one column per class; save its transpose, one row per class")
    if text.shape[1] != dimension:
        raise InputError(
            f"features of images have {dimension} numbers, those of class names {text.shape[1]}; give both from one "
            "network"
        )
    if len(text) != count:
        raise InputError(f"text has {len(text)} rows for {count} class names; give one row per name, in their order")
    empty = ~features.any(axis=1)
    if empty.any():
        raise InputError(f"features are all zero in row {int(empty.argmax())}, which has no cosine; remove the row")


def _unit(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of unit length in their own precision; zero rows are unchanged."""
    check_no_dates(rows, "text")
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise InputError(
            f"features of images and texts must be numbers of shape (rows, D), not {rows.dtype} {rows.shape}"
        )
    stored = torch.from_numpy(rows if rows.dtype.kind == "f" else rows.astype(np.float32))
    lengths = stored.norm(dim=1, keepdim=True)
    unit: NDArray[Any] = (stored / torch.where(lengths > 0, lengths, torch.ones_like(lengths))).numpy()
    return unit
