"""Points that belong to none of the classes: how well each point fits the labelled classes, and which ones do not.

An unknown class has no labels, so its points are far from labels along the neighbour graph as well, though their most
probable class may look certain. Three scores show it, each higher for points of the classes:

- the probability of the most probable class (Hendrycks and Gimpel 2017);
- the cosine to the nearest labelled point (Sun et al. 2022), of features smoothed over the graph;
- the share of a random walk on the graph that ends at labels, (1 - a) sum_t a^t (D^-1 W)^t v with a = 0.8. A labelled
  point counts v_i = (predicted points of its class) / (labels of its class), so that a large class with few labels
  loses nothing.

The inlier score is the mean of their ranks. The scores of labelled points are computed without their own labels; the
ranks of the others among them give conformal p-values.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, diags_array
from scipy.special import softmax
from scipy.stats import rankdata

from clustering.foundation.errors import InputError
from fsl.labelling.suspicious import Floats, checked_pile, graph_of, left_out_scores, ridge_scores, smoothed

RIDGE = 0.1
SHARPNESS = 12.0
_WALK, _STEPS = 0.8, 30
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Unknown:
    """How well the points without a label fit the labelled classes.

    Attributes:
        points: (U,) indices of the points without a label.
        inlier: (U,) score in [0, 1], higher for points of the classes.
        p_value: (U,) conformal p-value: the share of labelled points that fit no better, in (0, 1].
        share: estimated or given share of points of no class; 0 if none are to be marked.
        unknown: (U,) bool, the points of that share with the lowest scores.
    """

    points: NDArray[np.int64]
    inlier: NDArray[np.float64]
    p_value: NDArray[np.float64]
    share: float
    unknown: NDArray[np.bool_]


def none_of_these(
    features: ArrayLike, labels: ArrayLike, neighbours: ArrayLike, *, unknown: str | float | None = "auto"
) -> Unknown:
    """Find points that belong to none of the labelled classes.

    The p-values are uniform for points of the classes if the labelled points are a random sample of these; a selection
    that asks for difficult points makes them larger, and fewer points are marked.

    Args:
        features: (N, D) features of the pile, in the form that the classifier compares, for example of unit length.
        labels: (N,) integers, 0, ..., K - 1 for the given labels and -1 for the others.
        neighbours: (N, k) indices of the nearest neighbours of each point, without the point itself.
        unknown: share of the points without a label that belong to no class, in [0, 1]; "auto" estimates it from the
            p-values above 1/2, 1 - 2 #{p > 1/2} / U (Storey 2002); None marks no point.

    Raises:
        InputError: the arrays do not fit together, fewer than two classes have labels, or the share is not in [0, 1].
    """
    if unknown is not None and unknown != "auto" and (isinstance(unknown, str) or not 0 <= unknown <= 1):
        raise InputError(f'unknown={unknown!r} must be "auto", a share from 0 to 1, or None')
    values, near, given, labelled, own = checked_pile(features, labels, neighbours)
    others = np.flatnonzero(given < 0)
    scores = _scores(values, near, labelled, own)
    ranks = np.mean([rankdata(score) for score in scores], axis=0) / len(given)
    inlier, known = ranks[others], np.sort(ranks[labelled])
    p_value = (1 + np.searchsorted(known, inlier, side="right")) / (len(known) + 1)
    share = 0.0
    if unknown == "auto" and len(others):
        share = float(np.clip(1 - 2 * np.mean(p_value > 0.5), 0, 1))
    elif not isinstance(unknown, str) and unknown is not None:
        share = float(unknown)
    marked = np.zeros(len(others), dtype=bool)
    marked[np.argsort(inlier, kind="stable")[: round(share * len(others))]] = True
    return Unknown(others, inlier, p_value, share, marked)


def _scores(
    features: Floats, neighbours: NDArray[np.integer], labelled: NDArray[np.int64], own: NDArray[np.int64]
) -> list[Floats]:
    """The three scores (N,) of all points; those of labelled points do not use their own label."""
    F = smoothed(features, neighbours)
    logits = SHARPNESS * ridge_scores(F[labelled], own, RIDGE, F)
    logits[labelled] = SHARPNESS * left_out_scores(F[labelled], own, (RIDGE,))[0]
    p = softmax(logits, axis=1)
    sizes, counts = p.sum(axis=0), np.bincount(own)
    walked = _walked(neighbours, labelled, (sizes / counts)[own])
    return [p.max(axis=1), _nearest_label(F, labelled), walked]


def _nearest_label(F: Floats, labelled: NDArray[np.int64]) -> Floats:
    """(N,) cosine to the nearest labelled point other than the point itself."""
    unit = F / np.maximum(np.linalg.norm(F, axis=1, keepdims=True), 1e-12)
    place = np.full(len(F), -1)
    place[labelled] = np.arange(len(labelled))
    nearest = np.empty(len(F), dtype=unit.dtype)
    for first in range(0, len(F), _BLOCK):
        rows = slice(first, first + _BLOCK)
        cosines = unit[rows] @ unit[labelled].T
        itself = np.flatnonzero(place[rows] >= 0)
        cosines[itself, place[rows][itself]] = -np.inf
        nearest[rows] = cosines.max(axis=1)
    return nearest


def _walked(neighbours: NDArray[np.integer], labelled: NDArray[np.int64], weights: Floats) -> Floats:
    """(N,) weight of the labels at which a random walk from each point ends, without the own label.

    The own label is left out up to its returns after more than two steps.
    """
    W = graph_of(neighbours)
    inverse = 1 / np.maximum(W.sum(axis=1), 1e-12)
    P = csr_array(diags_array(inverse) @ W)
    start = np.zeros(len(inverse))
    start[labelled] = weights
    ended = start
    for _ in range(_STEPS):
        ended = (1 - _WALK) * start + _WALK * (P @ ended)
    returned = inverse * (W.multiply(W) @ inverse)  # diagonal of P^2, for a symmetric W
    return np.asarray(ended - (1 - _WALK) * start * (1 + _WALK**2 * returned))
