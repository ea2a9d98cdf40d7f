"""Import of features extracted by other programs, as a feature bank. Code in a file is never executed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from clustering.estimator_input import check_no_dates, check_not_vanishing
from clustering.files.array_files import ENDINGS, open_arrays
from clustering.files.arrays import NamedArrays
from clustering.files.regular import open_regular
from clustering.files.tensor_headers import read_header
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.fingerprint import Fingerprint
from fsl.benchmarks.benchmark import Split
from fsl.episodes import LOGIT_SCALE
from fsl.features.arrays import (
    FEATURES,
    LABELS,
    TEXT,
    as_features,
    as_labels,
    decoded,
    label_name,
    listed,
    named_arrays,
    of_mapping,
    pick_features,
    read_class_names,
    read_features,
    read_labels,
)
from fsl.features.bank import FeatureBank
from fsl.weights.pickles import PICKLES, read_pickle

WANTED = (
    "SimpleShot's output.plk (a list with a dict of features by class), a pickle of such a dict (S2M2, PT-MAP), or "
    "features (N, D) and labels (N,)"
)


class _Content(NamedTuple):
    form: str
    features: NDArray[Any]
    labels: NDArray[Any] | None
    names: tuple[str, ...] | None = None
    base_mean: NDArray[Any] | None = None
    text: NDArray[Any] | None = None
    logit_scale: float = LOGIT_SCALE


def import_features(
    path: Path,
    split: Split = "novel",
    *,
    labels: Path | None = None,
    text_features: Path | None = None,
    classes: Path | None = None,
    logit_scale: float | None = None,
    column: str | None = None,
    label_column: str | None = None,
    text_column: str | None = None,
) -> FeatureBank:
    """Read the features of a split from a file in one of these forms:

    - SimpleShot, LaplacianShot: a pickled list of the mean of the base classes, the mean of their logits, the features
      by class, and the logits by class; the first and third are used.
    - S2M2, PT-MAP: a pickled dict of features by class.
    - .npz, .pt or .safetensors with `features` and `labels`, or `features_<split>` and `labels_<split>`, and optionally
      `class_names`, `base_mean`, `text` (features of the class names, in their order) and `logit_scale`.
    - .parquet with a column of lists of numbers, or columns of floats, and a column of labels.
    - .npy, and any other form without labels: the labels are in a file of their own.

    Classes are numbered in the order of the labels (integers or strings) and keep their names; with class names, labels
    are their indices, or the names themselves. Features are converted to float32. With text, rows of images and texts
    are first scaled to unit length in the stored precision, as the published accuracies of vision-language models are
    computed, and classes without images are kept.

    Args:
        path: .plk, .pkl, .pickle, .npy, .npz, .pt, .pth, .safetensors or .parquet.
        split: the split of the features, stored in the bank's provenance.
        labels: file of the labels, see `read_labels`; None: they are in `path`.
        text_features: file of the (K, D) features of the class names, see `read_features`.
        classes: file of the class names, see `read_class_names`.
        logit_scale: factor of the cosines between images and class names; None: that of `path`, or else 100.
        column, label_column, text_column: names of the arrays or columns of features, labels and text; None: chosen by
            name, see `fsl.features.arrays`. For columns of numbers `column` may be a pattern, such as "emb_*".

    Raises:
        InputError: a file is missing, damaged, of another form, or contains objects that require executing code;
            features are NaN or infinite; labels, class names and text do not fit the features or each other; two
            classes have the same name. The message names the files.
        ImportError: pyarrow is not installed, which .parquet requires.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a file of features: {WANTED}")
    if path.suffix not in PICKLES and not path.suffix:
        raise InputError(f"{path}: features are read from {', '.join(PICKLES)}, {ENDINGS}: {WANTED}")
    if path.suffix == ".safetensors":
        kind = read_header(path, "write or download it again").get("format", "")
        if kind.startswith("transduce"):
            raise InputError(f"{path}: is {kind!r}, a file of this project; a bank is read by features={path}")
    arrays = None if path.suffix in PICKLES else open_arrays(path)
    own: dict[str, Any] = {}  # what has a file of its own, whose errors name that file
    if labels is not None:
        own["labels"] = read_labels(labels, label_column)
    if text_features is not None:
        own["text"] = read_features(text_features, text_column, option="text_column")
    if classes is not None:
        own["names"] = read_class_names(classes)
    if logit_scale is not None:
        own["logit_scale"] = logit_scale
    files = list(dict.fromkeys(Path(file) for file in (path, labels, text_features, classes) if file is not None))
    place = ", ".join(str(file) for file in files)
    try:
        if arrays is None:
            content = _of_pickle(read_pickle(path))
        else:
            content = _of_arrays(arrays, split, path.suffix.removeprefix("."), column, label_column, labels is None)
        provenance = {"imported": ", ".join(file.name for file in files), "content": _fingerprint(files)}
        return _bank(content._replace(**own), {**provenance, "form": content.form, "split": split})
    except InputError as error:
        raise error if str(error).startswith(str(path)) else InputError(f"{place}: {error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: no features recognised ({error}); the file should be {WANTED}") from error


def bank_of_arrays(
    features: Any,
    labels: Any = None,
    *,
    class_names: Sequence[str] | None = None,
    text: Any = None,
    logit_scale: float = LOGIT_SCALE,
    base_mean: ArrayLike | None = None,
    column: str | None = None,
    label_column: str | None = None,
    provenance: Mapping[str, str] | None = None,
) -> FeatureBank:
    """A feature bank of arrays in memory, as `import_features` reads them from files.

    Args:
        features: (N, D) array of NumPy or tensor; or a frame of pandas or table of Arrow, with a column of lists or
            columns of floats.
        labels: (N,) integers or names; None: a column of `features`.
        class_names: K names. Labels are their indices, or the names themselves.
        text: (K, D) features of the class names, in the forms of `features`.
        logit_scale: factor of the cosines between images and class names.
        base_mean: (D,) mean of the raw features of the base classes, which CL2N subtracts.
        column, label_column: columns of features and labels; None: chosen by name, see `import_features`.
        provenance: origin of the features.

    Raises:
        InputError: as in `import_features`; the message names the argument.
    """
    arrays = named_arrays(features)
    own_column = label_name(arrays, LABELS, label_column, "label_column") if labels is None and arrays.table else None
    taken = () if own_column is None else (own_column,)
    rows = as_features(features, column) if not taken else pick_features(arrays, FEATURES, column, "column", taken)
    if taken:
        labels = arrays.read(taken)[taken[0]]
    return _bank(
        _Content(
            "arrays",
            rows,
            None if labels is None else as_labels(labels),
            None if class_names is None else tuple(map(str, class_names)),
            None if base_mean is None else np.asarray(base_mean),
            None if text is None else as_features(text, name="text"),
            logit_scale,
        ),
        dict(provenance or {}),
    )


def _bank(content: _Content, provenance: Mapping[str, str]) -> FeatureBank:
    """The bank of checked arrays."""
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
        provenance,
        text=text,
        logit_scale=content.logit_scale,
    )


def _of_arrays(
    arrays: NamedArrays,
    split: Split,
    form: str,
    column: str | None = None,
    label_column: str | None = None,
    labelled: bool = True,
) -> _Content:
    """The arrays that may contain features and so on; others are not read, to save memory.

    Args:
        arrays, column, label_column: as in `import_features`.
        split: arrays whose names end with it are preferred.
        form: description of the file for the bank's provenance.
        labelled: whether the labels are among the arrays.

    Raises:
        InputError: features or labels are missing, or several arrays could be meant.
    """
    features_known, labels_known = ((*(f"{name}_{split}" for name in names), *names) for names in (FEATURES, LABELS))
    label = label_name(arrays, labels_known, label_column if labelled else None, "label_column")
    features = pick_features(arrays, features_known, column, "column", () if label is None else (label,))
    if label is None and labelled:
        raise InputError(
            f"contains {listed(arrays)}, but no labels; call an array or column labels, choose one with "
            "label_column=NAME, or give labels=FILE"
        )
    if arrays.table:  # its other columns describe pictures, not classes
        return _Content(form, features, None if label is None else arrays.read([label])[label])
    text = next((name for name in TEXT if name in arrays.kinds), None)
    others = [name for name in ("class_names", "base_mean", "logit_scale", text, label) if name in arrays.kinds]
    values = arrays.read([name for name in others if name is not None])
    names = values.get("class_names")
    if "logit_scale" in values and values["logit_scale"].size != 1:
        raise InputError(f"logit_scale must be one number, not an array of shape {values['logit_scale'].shape}")
    return _Content(
        form,
        features,
        None if label is None else values[label],
        None if names is None else tuple(map(str, decoded(names).tolist())),
        values.get("base_mean"),
        None if text is None else np.ascontiguousarray(values[text]),
        float(values["logit_scale"].item()) if "logit_scale" in values else LOGIT_SCALE,
    )


def _fingerprint(files: Sequence[Path]) -> str:
    """Fingerprint of the content of files."""
    content = Fingerprint()
    for path in files:
        content.begin(path.stat().st_size)
        with open_regular(path) as file:
            while piece := file.read(1 << 22):
                content.go_on(piece)
    return str(content)


def _of_pickle(content: Any) -> _Content:
    if isinstance(content, (list, tuple)) and len(content) == 4 and isinstance(content[2], Mapping):
        return _by_class("SimpleShot", content[2], np.asarray(content[0]))
    if isinstance(content, Mapping) and content:
        if any(name in content for name in FEATURES) and not _has_classes_only(content):
            return _of_arrays(
                of_mapping({str(k): np.asarray(value) for k, value in content.items()}), "novel", "pickle"
            )
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
    if not content.features.size:
        raise InputError(f"features are empty, of shape {content.features.shape}; give at least one row")
    if content.labels is None:
        raise InputError("features without labels; give labels, one per row, or the name of their column")
    if content.labels.shape != content.features.shape[:1]:
        raise InputError(
            f"{len(content.features)} features have labels of shape {content.labels.shape}; store one label per feature"
        )
    values, labels = np.unique(decoded(content.labels), return_inverse=True)
    if values.dtype.kind == "f":
        wrong = values[(values != np.trunc(values)) | ~(np.abs(values) < 2**53)]
        if len(wrong):
            raise InputError(f"labels must be integers or strings, but one is {wrong[0]}; remove rows without a label")
        values = values.astype(np.int64)
    if content.names is not None and values.dtype.kind == "U":
        values = _places(values, content.names)
    if content.names is None and content.text is not None and len(values) != len(content.text):
        names, labels = _names_of(values, len(content.text)), values[labels]
    elif content.names is None:
        if content.text is not None and values.dtype.kind == "U":
            raise InputError("text without class names, whose order is unknown; give them, one per row of text")
        names = tuple(map(str, values.tolist()))
    elif values.dtype.kind not in "iu" or values[0] < 0 or values[-1] >= len(content.names):
        raise InputError(
            f"labels run from {values[0]} to {values[-1]}, but there are {len(content.names)} class names, whose "
            "numbers begin at 0; give one name per class"
        )
    elif content.text is not None:  # classes without images keep their names
        names, labels = content.names, values.astype(np.int64)[labels]
    else:
        names = tuple(content.names[int(value)] for value in values)
    duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        raise InputError(f"two classes are called {duplicate!r}; use distinct names, or the same label for both")
    if content.text is not None:
        _check_text(content.features, content.text, names)
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
