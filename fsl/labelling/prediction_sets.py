"""Sets of classes that hold the true class with a stated probability: split conformal prediction.

The calibration points must be exchangeable with the points of the sets: a random sample of the pile, such as the points
of the audit (`fsl.labelling.audit`), not points that a selection asked for. Their labels must not be seen by the
prediction. Their features may be: a transductive strategy may predict calibration points and the others together, since
the order of the points is nothing to it.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from fsl.labelling.calibration import checked

Score = Literal["lac", "aps", "raps"]
"""LAC, 1 - p_y (Sadinle et al. 2019), has the smallest sets. APS, the randomised sum of the probabilities down to y
(Romano et al. 2020), adapts to the point. RAPS is APS with a penalty for large sets (Angelopoulos et al. 2021)."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Sets of classes.

    Attributes:
        members: (N, K) bool, the classes in the set of each point. A set may be empty.
        thresholds: (K,) largest score at which a class is in a set; infinite if there are too few calibration labels.
        by_class: (K,) bool, whether the threshold is from the labels of this class alone.
    """

    members: NDArray[np.bool_]
    thresholds: Matrix
    by_class: NDArray[np.bool_]

    @property
    def mean_size(self) -> float:
        """Mean number of classes in a set."""
        return float(self.members.sum(axis=1).mean())

    def coverage(self, labels: ArrayLike) -> float:
        """Share of points whose true class, in 0, ..., K - 1, is in their set."""
        return float(self.members[np.arange(len(self.members)), np.asarray(labels)].mean())


def predict_set(
    calibration: ArrayLike,
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    alpha: float = 0.1,
    score: Score = "lac",
    by_class: bool = False,
    penalty: float = 0.01,
    free: int = 5,
    seed: int = 0,
) -> PredictionSets:
    """Prediction sets of the points by split conformal prediction (Vovk et al. 2005).

    The set of a point has the classes whose score is at most the ceil((n + 1)(1 - alpha))-th smallest score of the n
    calibration points at their labels. It holds the true class with probability at least 1 - alpha, over the draw of
    calibration points and point together.

    Args:
        calibration: (n, K) probabilities of the calibration points, from the prediction that gave `probabilities`; see
            the module for which points these may be.
        labels: (n,) their labels, in 0, ..., K - 1, which the prediction has not seen; see `check_unseen`.
        probabilities: (N, K) of the points.
        alpha: probability that a set lacks the true class, in (0, 1).
        score: "lac", "aps" or "raps".
        by_class: take the threshold of a class from its own labels, so that the coverage holds for each such class.
            That needs at least 1 / alpha - 1 labels of the class; other classes take the threshold of all labels.
        penalty, free: of RAPS: the score rises by `penalty` for each class ranked above y beyond the first `free`.
        seed: of the random numbers of APS and RAPS.

    Raises:
        InputError: the arrays do not fit together, or a number is out of its range.
    """
    known, classes = checked(calibration, labels)
    rows = np.asarray(probabilities, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != known.shape[1] or not np.isfinite(rows).all():
        raise InputError(f"probabilities must be finite and (N, {known.shape[1]}), not {rows.shape}")
    if not 0 < alpha < 1:
        raise InputError(f"alpha={alpha} must be between 0 and 1")
    if score not in get_args(Score):
        raise InputError(f"score={score!r} must be one of {', '.join(get_args(Score))}")
    if not (penalty >= 0 and free >= 0):
        raise InputError(f"penalty={penalty} and free={free} must not be negative")
    random = stream(seed, "prediction sets")
    uniform = random.random(len(known)), random.random(len(rows))
    of_known, of_rows = (
        conformity_scores(p, score, u, penalty=penalty, free=free) for p, u in zip((known, rows), uniform, strict=True)
    )
    own = of_known[np.arange(len(known)), classes]
    thresholds = np.full(known.shape[1], _quantile(own, alpha))
    alone = np.zeros(known.shape[1], dtype=bool)
    if by_class:
        alone = _rank(np.bincount(classes, minlength=known.shape[1]), alpha) > 0
        thresholds[alone] = [_quantile(own[classes == k], alpha) for k in np.flatnonzero(alone)]
    return PredictionSets(of_rows <= thresholds, thresholds, alone)


def check_unseen(calibration: ArrayLike, fitted: ArrayLike) -> None:
    """Check that no calibration point is among the points whose labels were used to fit.

    Args:
        calibration: indices of the calibration points in the pile.
        fitted: indices of the points whose labels were used to fit, or to choose a setting.

    Raises:
        InputError: some are; the coverage would not hold.
    """
    seen = np.intersect1d(np.asarray(calibration), np.asarray(fitted))
    if len(seen):
        raise InputError(
            f"{len(seen)} calibration points, such as {seen[0]}, have labels that the fit has seen, so the sets would "
            "not hold the true class as often as stated; calibrate on labels that are not used to fit"
        )


def conformity_scores(
    probabilities: Matrix, score: Score, uniform: Matrix, *, penalty: float = 0.01, free: int = 5
) -> Matrix:
    """(N, K) scores of each class, from probabilities (N, K); for the settings see `predict_set`.

    Args:
        uniform: (N,) random numbers in [0, 1): the share of the probability of y that APS and RAPS leave out.
    """
    if score == "lac":
        return 1 - probabilities
    order = np.argsort(-probabilities, axis=1, kind="stable")
    summed = np.take_along_axis(probabilities, order, axis=1).cumsum(axis=1)
    if score == "raps":
        summed = summed + penalty * np.maximum(np.arange(1, summed.shape[1] + 1) - free, 0)
    scores = np.empty_like(summed)
    np.put_along_axis(scores, order, summed, axis=1)
    return np.asarray(scores - uniform[:, None] * probabilities)


def _rank(count: Any, alpha: float) -> Any:
    """The rank ceil((n + 1)(1 - alpha)) of the threshold among n scores; 0 if it is above n."""
    rank = np.ceil((np.asarray(count) + 1) * (1 - alpha) - 1e-9).astype(int)
    return np.where(rank > count, 0, rank)


def _quantile(scores: Matrix, alpha: float) -> float:
    rank = int(_rank(len(scores), alpha))
    return float(np.sort(scores)[rank - 1]) if rank else np.inf
