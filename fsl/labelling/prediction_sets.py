"""Sets of classes that hold the true class with a stated probability: split conformal prediction.

The score of a class is 1 minus its probability (LAC, Sadinle et al. 2019), which has the smallest sets. MAPIE's
`SplitConformalClassifier` has other scores, and works with any classifier.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d

from clustering.foundation.errors import InputError

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Sets of classes.

    Attributes:
        members: (N, K) bool, the classes in the set of each point. A set may be empty.
        thresholds: (K,) largest score at which a class is in a set; infinite if there are too few calibration labels.
    """

    members: NDArray[np.bool_]
    thresholds: Matrix

    @property
    def mean_size(self) -> float:
        """Mean number of classes in a set."""
        return float(self.members.sum(axis=1).mean())

    def coverage(self, labels: ArrayLike) -> float:
        """Share of points whose true class, in 0, ..., K - 1, is in their set."""
        return float(self.members[np.arange(len(self.members)), np.asarray(labels)].mean())


def predict_set(
    classifier: Any,
    calibration: ArrayLike,
    labels: ArrayLike,
    *,
    alpha: float = 0.1,
    by_class: bool = False,
) -> PredictionSets:
    """Sets of classes of all points of the pile (Vovk et al. 2005).

    The set of a point has the classes whose score is at most the ceil((n + 1)(1 - alpha))-th smallest score of the n
    calibration points at their labels. It holds the true class with probability at least 1 - alpha, over the draw of
    calibration points and point together, for points of `classes_` that `fit` saw without a label.

    Args:
        classifier: a `TransductiveClassifier` after `fit`.
        calibration: (n,) indices of points of the pile, a random sample of those that `fit` saw without a label, such
            as the audit (`fsl.labelling.audit`), not points that a selection asked for.
        labels: (n,) their labels, among `classes_`. Leave out points of other classes.
        alpha: probability that a set lacks the true class, in (0, 1).
        by_class: take the threshold of a class from its own labels, so that the coverage holds for each such class.
            That needs at least 1 / alpha - 1 labels of the class; other classes take the threshold of all labels.

    Returns:
        The sets; their columns are in the order of `classes_`.

    Raises:
        InputError: `fit` has seen a label of the calibration, so that the coverage would not hold; an index or label is
            out of range, or alpha is.
    """
    check_is_fitted(classifier, "label_distributions_")
    p = np.asarray(classifier.label_distributions_, dtype=np.float64)
    points, given = np.asarray(calibration), column_or_1d(labels)
    if points.ndim != 1 or points.dtype.kind not in "iu" or len(points) != len(given) or not len(points):
        raise InputError("calibration must be a list of indices of points, with one label for each of them")
    if not 0 <= points.min() <= points.max() < len(p):
        raise InputError(f"calibration must be indices of the {len(p)} points of the pile")
    if not 0 < alpha < 1:
        raise InputError(f"alpha={alpha} must be between 0 and 1")
    seen = np.intersect1d(points, classifier.labelled_)
    if len(seen):
        raise InputError(
            f"{len(seen)} calibration points, such as {seen[0]}, have labels that the fit has seen, so the sets would "
            "not hold the true class as often as stated; calibrate on labels that are not used to fit"
        )
    columns = {label: column for column, label in enumerate(classifier.classes_.tolist())}
    other = next((label for label in given.tolist() if label not in columns), None)
    if other is not None:
        raise InputError(f"the calibration label {other!r} is none of classes_; leave out points of other classes")
    own = np.array([columns[label] for label in given.tolist()], dtype=np.int64)
    scores = 1 - p[points, own]
    thresholds = np.full(p.shape[1], _quantile(scores, alpha))
    if by_class:
        alone = _rank(np.bincount(own, minlength=p.shape[1]), alpha) > 0
        thresholds[alone] = [_quantile(scores[own == k], alpha) for k in np.flatnonzero(alone)]
    return PredictionSets(1 - p <= thresholds, thresholds)


def _rank(count: Any, alpha: float) -> Any:
    """The rank ceil((n + 1)(1 - alpha)) of the threshold among n scores; 0 if it is above n."""
    rank = np.ceil((np.asarray(count) + 1) * (1 - alpha) - 1e-9).astype(int)
    return np.where(rank > count, 0, rank)


def _quantile(scores: Matrix, alpha: float) -> float:
    rank = int(_rank(len(scores), alpha))
    return float(np.sort(scores)[rank - 1]) if rank else np.inf
