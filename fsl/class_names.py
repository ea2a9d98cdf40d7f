"""Class names of a user's own classifier, with their features."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from clustering.feature_files import as_rows
from clustering.foundation.errors import InputError
from fsl.features.prompts import distinct


class Level(NamedTuple):
    """A level of a taxonomy: classes whose names begin with the same parts.

    Attributes:
        names: (G,) first parts of the class names, such as "bird" of "bird/wren" and "bird/owl".
        of_class: (K,) place among the names, for each class.
        probabilities: (N, G) sums of the probabilities of their classes.
    """

    names: NDArray[np.str_]
    of_class: NDArray[np.int64]
    probabilities: NDArray[np.floating]

    @property
    def labels(self) -> NDArray[np.str_]:
        """(N,) most probable name. The most probable class need not belong to it."""
        return np.asarray(self.names[self.probabilities.argmax(axis=1)])


def levels(classes: ArrayLike, probabilities: ArrayLike) -> list[Level]:
    """The levels of class names such as "bird/wren", from the coarsest to the classes; one if no name has a "/".

    A name with fewer parts than others stays as it is on the finer levels.

    Args:
        classes: (K,) class names, such as `classes_` of a classifier.
        probabilities: (N, K) class probabilities, as from `predict_proba`.
    """
    parts = [str(name).split("/") for name in np.asarray(classes).tolist()]
    given, found = np.asarray(probabilities), []
    for depth in range(1, max(map(len, parts)) + 1):
        names, of_class = np.unique(["/".join(part[:depth]) for part in parts], return_inverse=True)
        found.append(Level(names, of_class, given @ np.eye(len(names), dtype=given.dtype)[of_class]))
    return found


class ClassNames(NamedTuple):
    """K class names, sorted, and their features.

    Attributes:
        names: (K,) names, different from each other.
        text: (K, D) float32 or float64 features.
    """

    names: NDArray[np.str_]
    text: NDArray[np.floating]

    @classmethod
    def given(cls, names: Sequence[str] | None, text: ArrayLike | None) -> "ClassNames | None":
        """Check and sort class names; None if there are neither names nor features.

        Raises:
            InputError: names or features are missing, not of the same number, repeated, or not usable.
        """
        if names is None and text is None:
            return None
        if names is None:
            raise InputError("text has no class names: give class_names, one per row of text")
        if text is None:
            raise InputError(
                "class names need features: give text, an array with one row per class name, or a network with a text "
                "tower (backbone=open_clip:NAME)"
            )
        given = np.asarray(distinct(names))
        sorted_names, order = np.unique(given, return_index=True)
        rows = as_rows(text, "text")
        try:
            features = np.asarray(rows)
            features = features.astype(np.float64 if features.dtype == np.float64 else np.float32)
        except (TypeError, ValueError) as error:
            raise InputError("text must be an array of numbers, one row per class name") from error
        if features.ndim != 2 or len(features) != len(given) or not features.shape[1]:
            raise InputError(
                f"text must have one row per class name: shape ({len(given)}, D) for {len(given)} names, not "
                f"{features.shape}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.square(features).sum(axis=1)
        bad = ~np.isfinite(lengths) | (lengths == 0)
        if bad.any():
            raise InputError(f"the text feature of {str(given[bad][0])!r} is zero, NaN, infinite, or too large")
        return cls(sorted_names, features[order])

    def indices(self, labels: ArrayLike) -> NDArray[np.int64]:
        """(S,) index of each label among the names.

        Raises:
            InputError: a label is not among them.
        """
        given = np.asarray(labels).astype(self.names.dtype.type)
        unknown = sorted(set(given.tolist()) - set(self.names.tolist()))
        if unknown:
            raise InputError(
                f"the class {unknown[0]!r} of a labelled picture is not among the class names; add it to them"
            )
        return np.searchsorted(self.names, given).astype(np.int64)


def classes_of(labels: Any, names: ClassNames | None, columns: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(K,) sorted classes of labels (S,), which are the class names if there are any, and (S,) indices into them.

    Raises:
        InputError: a label is not among the names, or their features have another number of columns.
    """
    if names is None:
        return np.unique(labels, return_inverse=True)
    if names.text.shape[1] != columns:
        raise InputError(f"text has {names.text.shape[1]} features, X has {columns}; use those of one network")
    return names.names, names.indices(labels)


def check_targets(labels: NDArray[Any]) -> None:
    """Check that labels are classes, of which one or two examples each are no cause for a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")
        check_classification_targets(labels)
