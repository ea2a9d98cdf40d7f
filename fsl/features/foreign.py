"""Import of features extracted by other programs, as a feature bank. Code in a file is never executed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.feature_files import (
    FEATURES,
    LABELS,
    decoded,
    label_name,
    listed,
    naming,
    pick_features,
    read_class_names,
    read_features,
    read_labels,
)
from clustering.files.arrays import NamedArrays, of_mapping, open_arrays
from clustering.files.regular import fingerprint_of_files
from clustering.files.tensors import read_header
from clustering.foundation.errors import InputError
from fsl.benchmarks.benchmark import Split
from fsl.benchmarks.pickles import PICKLES, read_pickle
from fsl.features.bank import FeatureBank

WANTED = (
    "SimpleShot's output.plk (a list with a dict of features by class), a pickle of such a dict (S2M2, PT-MAP), or "
    "features (N, D) and labels (N,)"
)


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
    prompt: int | None = None,
) -> FeatureBank:
    """Read the features of a split from a file in one of these forms:

    - SimpleShot, LaplacianShot: a pickled list of the mean of the base classes, the mean of their logits, the features
      by class, and the logits by class; the first and third are used.
    - S2M2, PT-MAP: a pickled dict of features by class.
    - .npz, .pt or .safetensors with `features` and `labels`, or `features_<split>` and `labels_<split>`, and optionally
      `class_names`, `base_mean`, `text` (features of the class names, in their order) and `logit_scale`; for `prompt`
      also `text_by_prompt` (P, K, D), a `text` for each of P prompts, and optionally their words, `prompts` (P,).
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
        column, label_column, text_column: names of the arrays or columns of features, labels and text; None: those of
            these names, or the only ones, see `clustering.feature_files`. For columns of numbers `column` may be a
            pattern, such as "emb_*".
        prompt: number of a prompt of `text_by_prompt`, from 0, which replaces `text`; None: `text`.

    Raises:
        InputError: a file is missing, damaged, of another form, or contains objects that require executing code;
            features are NaN or infinite; labels, class names and text do not fit the features or each other; two
            classes have the same name; there is no such prompt. The message names the files.
        ImportError: pyarrow is not installed, which .parquet requires.
    """
    path = Path(path)
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {problem}; give a file of features: {WANTED}")
    if path.suffix == ".safetensors":
        kind = read_header(path, "write or download it again").get("format", "")
        if kind.startswith("transduce"):
            raise InputError(f"{path}: is {kind!r}, a file of this project; a bank is read by features={path}")
    own = {  # what has a file of its own, whose errors name that file
        "labels": None if labels is None else read_labels(labels, label_column),
        "text": None if text_features is None else read_features(text_features, text_column, option="text_column"),
        "class_names": None if classes is None else read_class_names(classes),
        "logit_scale": logit_scale,
    }
    files = list(dict.fromkeys(Path(file) for file in (path, labels, text_features, classes) if file is not None))
    try:
        with naming(path), naming(", ".join(map(str, files))):
            form, arrays = (path.suffix[1:], open_arrays(path)) if path.suffix not in PICKLES else _of_pickle(path)
            given = _given(arrays, split, column, label_column, labelled=labels is None)
            if prompt is not None:
                if text_features is not None:
                    raise InputError(f"prompt={prompt} and text_features={text_features} both give text; omit one")
                given |= _of_prompt(arrays, prompt)
            given |= {name: value for name, value in own.items() if value is not None}
            provenance = {"imported": ", ".join(file.name for file in files), "content": fingerprint_of_files(files)}
            return FeatureBank.from_arrays(**given, provenance={**provenance, "form": form, "split": split})
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: no features recognised ({error}); the file should be {WANTED}") from error


def _given(
    arrays: NamedArrays, split: Split, column: str | None, label_column: str | None, *, labelled: bool
) -> dict[str, Any]:
    """The arguments of `FeatureBank.from_arrays` in a file; names that end with the split are preferred. Other arrays
    are not read, to save memory."""
    features_known, labels_known = ((*(f"{name}_{split}" for name in names), *names) for names in (FEATURES, LABELS))
    label = label_name(arrays, labels_known, label_column if labelled else None, "label_column")
    features = pick_features(arrays, column, known=features_known, label=label)
    if label is None and labelled:
        raise InputError(
            f"contains {listed(arrays)}, but no labels; call an array or column labels, choose one with "
            "label_column=NAME, or give labels=FILE"
        )
    names = {"labels": label}
    if not arrays.table:  # the other columns of a table describe pictures, not classes
        names |= {name: name for name in ("class_names", "text", "base_mean", "logit_scale")}
    found = {argument: name for argument, name in names.items() if name is not None and name in arrays.kinds}
    values = arrays.read(list(found.values()))
    given: dict[str, Any] = {argument: values[name] for argument, name in found.items()}
    if "class_names" in given:
        given["class_names"] = decoded(given["class_names"]).tolist()
    return {"features": features, **given}


def _of_prompt(arrays: NamedArrays, prompt: int) -> dict[str, Any]:
    """The text features and the words of one prompt."""
    if "text_by_prompt" not in arrays.kinds:
        raise InputError(f"prompt={prompt}, but the file has no array text_by_prompt (P, K, D); omit prompt")
    values = arrays.read([name for name in ("text_by_prompt", "prompts") if name in arrays.kinds])
    by_prompt, words = values["text_by_prompt"], values.get("prompts")
    if by_prompt.ndim != 3:
        raise InputError(f"text_by_prompt must be of shape (P, K, D), not {by_prompt.shape}")
    if not 0 <= prompt < len(by_prompt):
        raise InputError(f"prompt={prompt}, but the file has prompts 0 to {len(by_prompt) - 1}; give one of these")
    named = () if words is None or words.shape != by_prompt.shape[:1] else (str(decoded(words)[prompt]),)
    return {"text": by_prompt[prompt], "prompts": named}


def _of_pickle(path: Path) -> tuple[str, NamedArrays]:
    """The form of a pickle, and its arrays."""
    content = read_pickle(path)
    if isinstance(content, (list, tuple)) and len(content) == 4 and isinstance(content[2], Mapping):
        return "SimpleShot", of_mapping({**_by_class(content[2]), "base_mean": np.asarray(content[0])})
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"it holds a {type(content).__name__}")
    if "features" in content:
        return "pickle", of_mapping({str(name): np.asarray(value) for name, value in content.items()})
    return "features by class", of_mapping(_by_class(content))


def _by_class(by_class: Mapping[Any, Any]) -> dict[str, NDArray[Any]]:
    """The arrays of a dict that maps labels to lists of rows."""
    parts = {label: np.asarray(rows) for label, rows in by_class.items() if len(rows)}
    shapes = {part.shape[1:] for part in parts.values()}
    if len(shapes) != 1 or any(part.dtype.kind not in "fiu" for part in parts.values()):
        raise ValueError(f"the classes have rows of shapes {', '.join(map(str, sorted(shapes))) or 'none'}")
    order = sorted(parts, key=lambda label: (isinstance(label, str), label))
    return {
        "features": np.concatenate([parts[label] for label in order]),
        "labels": np.repeat(np.arange(len(order)), [len(parts[label]) for label in order]),
        "class_names": np.array([str(label) for label in order]),
    }
