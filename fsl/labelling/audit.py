"""Estimated accuracy of predicted labels, from the answers to an audit.

The points that a selection asks for are no random sample: their accuracy is not that of the other points. The audit is
therefore a random sample of its own, drawn in the order of `audit_order`, under two rules:

- The answers of the audit are not used to fit.
- Whoever or whatever selects points treats the points of the audit as unlabelled. When a selection takes one of them,
  its answer is known at once; it is used to fit from then on, and leaves the audit.

Then the remaining audit is, at any time, a simple random sample of the points that are not used to fit, whatever the
selection did. Every prediction of the session, the last one as well, can be compared with all answers of the audit, and
the number of right ones has a hypergeometric distribution.

People also label points of their own choice, mostly those whose prediction is wrong. Such a choice depends on the
truth, so these points cannot simply leave the population: too few wrong predictions would remain in it. Three more
rules:

- The selection treats points labelled by hand as unlabelled, and so does the audit. One that the selection takes counts
  as selected from then on; one that the order of the audit reaches joins the audit, and is not used to fit.
- The audit is then a sample of the points that no selection has taken, those labelled by hand included.
- The number of wrong predictions among the latter is known, because each is predicted without its own label.
  `estimated_accuracy` subtracts it.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream


def audit_order(size: int, seed: int = 0) -> NDArray[np.int64]:
    """(size,) the order in which the audit asks for the points of a pile: a random permutation.

    The audit of n points are the first n in this order that are not used to fit. It can be extended at any time.
    """
    return stream(seed, "audit", size).permutation(size)


@dataclass(frozen=True)
class EstimatedAccuracy:
    """Accuracy of the predicted labels of the points that are not used to fit.

    Attributes:
        accuracy: estimated share of right predictions, in [0, 1]; that of the audit, if no point is labelled by hand.
        low, high: limits of the interval, in [0, 1].
    """

    accuracy: float
    low: float
    high: float


def estimated_accuracy(
    right: ArrayLike, population: int, *, by_hand: ArrayLike = (), confidence: float = 0.95
) -> EstimatedAccuracy:
    """Estimate the accuracy of the predicted labels of a finite population from a simple random sample of it.

    The interval contains each accuracy that neither of two tests rejects, at (1 - confidence) / 2 each. They are tests
    by the hypergeometric distribution with the mid-p value, P(more extreme) + P(as observed) / 2 (Lancaster 1961; Berry
    and Armitage 1995). Without mid-p, the interval (Clopper and Pearson 1934) covers more often than it states, most of
    all where few predictions are wrong. The population is finite: an audit of all its points has an interval of length
    0.

    Args:
        right: (n,) whether the prediction agrees with the answer, for each point of the audit; see the module for how
            to draw it.
        population: number of points that are not used to fit, the n points of the audit included.
        by_hand: (m,) whether the prediction agrees with the answer, for each point labelled by hand that is used to
            fit. It must be predicted without its own label.
        confidence: nominal coverage, in (0, 1).

    Raises:
        InputError: the audit is empty, larger than the population, or not of true and false; `by_hand` is not of true
            and false; or the confidence is not in (0, 1).
    """
    answers, hand = np.asarray(right), np.asarray(by_hand)
    for name, values in (("right", answers), ("by_hand", hand)):
        if values.ndim != 1 or not np.isin(values, (0, 1)).all():
            raise InputError(f"{name} must be a list of true and false")
    if not 1 <= len(answers) <= population:
        raise InputError(f"population={population} must be at least the size of the audit, {len(answers)}, and that 1")
    if not 0 < confidence < 1:
        raise InputError(f"confidence={confidence} must be between 0 and 1")
    count, size, rest = int(answers.sum()), len(answers), int(population)
    sampled, known = rest + len(hand), int(hand.sum())

    def share(total: float) -> float:
        """Share of right predictions in the population, of `total` right ones among all sampled points."""
        return float(np.clip(total - known, count, rest - (size - count))) / rest

    low, high = _limits(count, size, sampled, confidence)
    return EstimatedAccuracy(share(count / size * sampled), share(low), share(high))


@lru_cache(maxsize=4096)
def _limits(count: int, size: int, population: int, confidence: float) -> tuple[int, int]:
    """Fewest and most right predictions in the population that are not rejected."""
    # The test of the upper limit is that of the lower one for the number of wrong predictions.
    return _fewest(count, size, population, confidence), population - _fewest(
        size - count, size, population, confidence
    )


def _fewest(count: int, size: int, population: int, confidence: float) -> int:
    """Smallest number in the population for which a sample of this size with at least `count` is not rejected."""
    rejected = (1 - confidence) / 2 + 1e-9  # a tie is rejected, whatever its rounding
    totals = range(count, population - (size - count) + 1)

    def accepted(total: int) -> bool:
        sampled = hypergeom(population, total, size)
        return bool(sampled.sf(count) + sampled.pmf(count) / 2 > rejected)

    return totals[min(bisect_left(totals, True, key=accepted), len(totals) - 1)]
