"""Import of features extracted by other programs, as a feature bank. Code in a file is never executed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from clustering.estimator_input import check_no_dates, check_not_vanishing
from clustering.files.arrays import array_names, read_arrays
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from fsl.benchmarks.benchmark import Split
from fsl.episodes import LOGIT_SCALE
from fsl.features.bank import FeatureBank
from fsl.weights.pickles import PICKLES, read_pickle

FEATURES = ("features", "feats", "feature", "embeddings", "images", "x", "X", "data")
LABELS = ("labels", "label", "targets", "target", "y", "Y")
KNOWN = frozenset((*FEATURES, *LABELS, "class_names", "base_mean", "text", "logit_scale"))
WANTED = (
    "SimpleShot's output.plk (a list with a dict of features by class), a pickle of such a dict (S2M2, PT-MAP), or an "
    ".npz of features (N, D) and labels (N,)"
)


class _Content(NamedTuple):
    form: str
    features: NDArray[Any]
    labels: NDArray[Any]
    names: tuple[str, ...] | None = None
    base_mean: NDArray[Any] | None = None
    text: NDArray[Any] | None = None
    logit_scale: float = LOGIT_SCALE


def import_features(path: Path, split: Split = "novel") -> FeatureBank:
    """Read the features of a split from a file in one of these forms:

    - SimpleShot, LaplacianShot: a pickled list of the mean of the base classes, the mean of their logits, the features
      by class, and the logits by class; the first and third are used.
    - S2M2, PT-MAP: a pickled dict of features by class.
    - an .npz with `features` and `labels`, or `features_<split>` and `labels_<split>`, and optionally `class_names`,
      `base_mean`, `text` (features of the class names, in their order) and `logit_scale`.

    Classes are numbered in the order of the file's labels (integers or strings) and keep their names. Features are
    converted to float32. With text, rows of images and texts are first scaled to unit length in the stored precision,
    as the published accuracies of vision-language models are computed, and classes without images are kept.

    Args:
        path: .plk, .pkl, .pickle or .npz.
        split: the split of the features, stored in the bank's provenance.

    Raises:
        InputError: the file is missing, damaged, of another form, or contains objects that require executing code;
            features are NaN or infinite; a label is NaN; two classes have the same name. The message names the file.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a file of features: {WANTED}")
    if path.suffix not in (*PICKLES, ".npz"):
        raise InputError(f"{path}: features are read from {', '.join(PICKLES)} and .npz: {WANTED}")
    try:
        content = _of_arrays(*_arrays(path, split), split) if path.suffix == ".npz" else _of_pickle(read_pickle(path))
        labels, names = _numbered(content)
        mean = content.base_mean
        check_no_dates(content.features, "its array of features")
        check_no_dates(mean, "base_mean")
        numbers = np.asarray(content.features)
        if numbers.size and numbers.dtype.kind == "f":
            check_not_vanishing(float(np.abs(numbers).max()), np.float32)
        with np.errstate(over="ignore"):  # values that overflow float32 are rejected as infinite
            stored = content.features if content.text is None else _unit(content.features)
            features = np.ascontiguousarray(stored, np.float32)
            text = None if content.text is None else torch.from_numpy(_unit(content.text).astype(np.float32))
            mean = None if mean is None else np.array(mean, np.float32)
        return FeatureBank(
            torch.from_numpy(features),
            torch.from_numpy(labels),
            names,
            None if mean is None else torch.from_numpy(mean),
            {"imported": path.name, "content": fingerprint(path.read_bytes()), "form": content.form, "split": split},
            text=text,
            logit_scale=content.logit_scale,
        )
    except InputError as error:
        raise error if str(error).startswith(str(path)) else InputError(f"{path}: {error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: no features recognised ({error}); the file should be {WANTED}") from error


def _arrays(path: Path, split: Split) -> tuple[Mapping[str, NDArray[Any]], Sequence[str]]:
    """The arrays that may hold features, and the names of all arrays; others are not read, to save memory."""
    try:
        return read_arrays(path, lambda name: name.removesuffix(f"_{split}") in KNOWN), array_names(path)
    except InputError:
        raise
    except Exception as error:  # a damaged archive may raise any error
        raise InputError(f"{path}: damaged, or not an archive of arrays ({error}); download it again") from error


def _of_arrays(arrays: Mapping[str, NDArray[Any]], names_in_file: Sequence[str], split: Split) -> _Content:
    def first(names: Sequence[str], content: str) -> NDArray[Any]:
        for name in (*(f"{name}_{split}" for name in names), *names):
            if name in arrays:
                return arrays[name]
        raise InputError(
            f"contains {', '.join(map(str, names_in_file)) or 'nothing'}, but no {content}; name the array "
            f"{names[0]} or {names[0]}_{split}"
        )

    names = arrays.get("class_names")
    return _Content(
        "npz",
        first(FEATURES, "features"),
        first(LABELS, "labels"),
        None if names is None else tuple(map(str, _as_text(names).tolist())),
        arrays.get("base_mean"),
        arrays.get("text"),
        float(arrays["logit_scale"]) if "logit_scale" in arrays else LOGIT_SCALE,
    )


def _of_pickle(content: Any) -> _Content:
    if isinstance(content, (list, tuple)) and len(content) == 4 and isinstance(content[2], Mapping):
        return _by_class("SimpleShot", content[2], np.asarray(content[0]))
    if isinstance(content, Mapping) and content:
        if any(name in content for name in FEATURES) and not _has_classes_only(content):
            return _of_arrays({key: np.asarray(value) for key, value in content.items()}, list(content), "novel")
        return _by_class("features by class", content, None)
    raise ValueError(f"it holds a {type(content).__name__}")


def _has_classes_only(content: Mapping[Any, Any]) -> bool:
    """Whether all values of a dict have rows of the same length, so that a key such as "x" is the name of a class."""
    if len(content) < 2 or not all(isinstance(rows, (list, tuple)) or np.ndim(rows) for rows in content.values()):
        return False
    widths = {np.shape(rows[0]) for rows in content.values() if len(rows)}
    return len(widths) == 1 and len(next(iter(widths))) == 1


def _by_class(form: str, by_class: Mapping[Any, Any], mean: NDArray[Any] | None) -> _Content:
    """The features of a dict that maps labels to lists of rows."""
    order = sorted(by_class, key=lambda label: (isinstance(label, str), label))
    parts = [np.asarray(by_class[label]) for label in order]
    shapes = {part.shape[1:] for part in parts if len(part)}
    if len(shapes) != 1 or any(part.dtype.kind not in "fiu" for part in parts if len(part)):
        raise ValueError(f"the classes have rows of shapes {', '.join(map(str, sorted(shapes))) or 'none'}")
    kept = [(label, part) for label, part in zip(order, parts, strict=True) if len(part)]
    labels = np.repeat(np.arange(len(kept)), [len(part) for _, part in kept])
    return _Content(
        form, np.concatenate([part for _, part in kept]), labels, tuple(str(label) for label, _ in kept), mean
    )


def _numbered(content: _Content) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels 0..K-1 and the names of the classes."""
    if content.features.ndim != 2 or content.features.dtype.kind not in "fiu":
        raise InputError(
            f"features must be numbers of shape (N, D), not {content.features.dtype} {content.features.shape}"
        )
    if content.labels.shape != content.features.shape[:1]:
        raise InputError(
            f"{len(content.features)} features have labels of shape {content.labels.shape}; store one label per feature"
        )
    values, labels = np.unique(_as_text(content.labels), return_inverse=True)
    if values.dtype.kind == "f":
        wrong = values[(values != np.trunc(values)) | ~(np.abs(values) < 2**53)]
        if len(wrong):
            raise InputError(f"labels must be integers or strings, but one is {wrong[0]}; remove rows without a label")
        values = values.astype(np.int64)
    if content.names is None:
        names = tuple(map(str, values.tolist()))
    elif values.dtype.kind not in "iu" or values[0] < 0 or values[-1] >= len(content.names):
        raise InputError(f"labels run from {values[0]} to {values[-1]}, but there are {len(content.names)} class names")
    elif content.text is not None:  # classes without images keep their names
        names, labels = content.names, values.astype(np.int64)[labels]
    else:
        names = tuple(content.names[int(value)] for value in values)
    duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        raise InputError(f"two classes are called {duplicate!r}; use distinct names, or the same label for both")
    return labels.astype(np.int64), names


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


def _as_text(names: NDArray[Any]) -> NDArray[Any]:
    """Decode byte strings, as written by Python 2; other arrays are returned unchanged."""
    if names.dtype.kind != "S":
        return names
    try:
        return np.char.decode(names, "utf-8")
    except UnicodeDecodeError:
        return np.char.decode(names, "latin1")
