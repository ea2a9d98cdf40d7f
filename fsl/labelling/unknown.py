"""Points that belong to none of the classes: how well each point fits the labelled classes, and which ones do not.

An unknown class has no labels, so its points are far from labels along the neighbour graph as well, though their most
probable class may look certain. Three scores show it, each higher for points of the classes:

- the probability of the most probable class (Hendrycks and Gimpel 2017);
- the cosine to the nearest labelled point (Sun et al. 2022), of features smoothed over the graph;
- the share of a random walk on the graph that ends at labels, (1 - a) sum_t a^t (D^-1 W)^t v with a = 0.8. A labelled
  point counts v_i = (predicted points of its class) / (labels of its class), so that a large class with few labels
  loses nothing.

The inlier score is the mean of their ranks. The scores of labelled points are computed without their own labels; the
ranks of the others among them, each weighted by v_i, give conformal p-values (Tibshirani et al. 2019).
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.graphs.sparse_graph import SparseGraph
from clustering.lengths import unit_rows
from fsl.transductive_classifier import TransductiveClassifier

_WALK, _STEPS = 0.8, 30
_CELLS = 2**25  # similarities of points and labelled ones held at a time


@dataclass(frozen=True, eq=False)
class Unknown:
    """How well the points without a label fit the labelled classes.

    Attributes:
        points: (U,) indices of the points without a label.
        inlier: (U,) score in [0, 1], higher for points of the classes.
        p_value: (U,) conformal p-value: the weighted share of labelled points that fit no better, in (0, 1].
        share: estimated or given share of points of no class; 0 if none are to be marked.
        unknown: (U,) bool, the points of that share with the lowest scores.
    """

    points: NDArray[np.int64]
    inlier: NDArray[np.float64]
    p_value: NDArray[np.float64]
    share: float
    unknown: NDArray[np.bool_]


def none_of_these(classifier: TransductiveClassifier, *, unknown: str | float | None = "auto") -> Unknown:
    """Find points that belong to none of the classes.

    The p-values are uniform for points of the classes if the labelled points of each class are a random sample of it; a
    selection that asks for difficult points makes them larger, and fewer points are marked.

    Args:
        classifier: after `fit`, with labels.
        unknown: share of the points without a label that belong to no class, in [0, 1]; "auto" estimates it from the
            p-values above 1/2, 1 - 2 #{p > 1/2} / U (Storey 2002); None marks no point.

    Raises:
        InputError: fewer than two classes have labels, or the share is not in [0, 1].
    """
    if unknown is not None and unknown != "auto" and (isinstance(unknown, str) or not 0 <= unknown <= 1):
        raise InputError(f'unknown={unknown!r} must be "auto", a share from 0 to 1, or None')
    left_out = classifier.left_out_distributions()
    distributions, labelled = classifier.label_distributions_.copy(), classifier.labelled_
    own = distributions[labelled].argmax(axis=1)
    if len(np.unique(own)) < 2:
        raise InputError("labels of at least two classes are needed to find points of none")
    distributions[labelled] = left_out
    others = np.setdiff1d(np.arange(len(distributions)), labelled)
    points, (level, _) = classifier.smoothed(), classifier.chosen()
    sizes, counts = distributions.sum(axis=0), np.bincount(own, minlength=len(left_out[0]))
    weights, labels = (sizes / counts.clip(1))[own], torch.from_numpy(labelled)
    features = unit_rows(points.levels[level][0][:, :-1])  # without the constant
    scores = (
        distributions.max(axis=1),
        _nearest_label(features, labels).numpy(),
        _walked(points.graph, labels, torch.from_numpy(weights)).numpy(),
    )
    ranks = np.mean([rankdata(score) for score in scores], axis=0) / len(distributions)
    inlier, order = ranks[others], np.argsort(ranks[labelled])
    mass = np.concatenate([[0], weights[order].cumsum()]) * len(labelled) / weights.sum()
    p_value = np.minimum(1, (1 + mass[np.searchsorted(ranks[labelled][order], inlier, side="right")]) / (len(own) + 1))
    share = 0.0
    if unknown == "auto" and len(others):
        share = float(np.clip(1 - 2 * np.mean(p_value > 0.5), 0, 1))
    elif not isinstance(unknown, str) and unknown is not None:
        share = float(unknown)
    marked = np.zeros(len(others), dtype=bool)
    marked[np.argsort(inlier, kind="stable")[: round(share * len(others))]] = True
    return Unknown(others, inlier, p_value, share, marked)


def _nearest_label(unit: Tensor, labelled: Tensor) -> Tensor:
    """(N,) cosine of unit features (N, D) to the nearest labelled point other than the point itself."""
    place = torch.full((len(unit),), -1)
    place[labelled] = torch.arange(len(labelled))
    nearest, block = [], max(1, _CELLS // len(labelled))
    for first in range(0, len(unit), block):
        rows = slice(first, first + block)
        cosines = unit[rows] @ unit[labelled].T
        itself = (place[rows] >= 0).nonzero()[:, 0]
        cosines[itself, place[rows][itself]] = -torch.inf
        nearest.append(cosines.amax(dim=1))
    return torch.cat(nearest)


def _walked(graph: SparseGraph, labelled: Tensor, weights: Tensor) -> Tensor:
    """(N,) weight of the labels at which a random walk from each point ends, without the own label.

    The own label is left out up to its returns after more than two steps.
    """
    graph = graph.to(torch.float64)
    inverse = 1 / graph.degrees[0].clamp_min(1e-12)

    def times(matrix: SparseGraph, vector: Tensor) -> Tensor:
        return (matrix @ vector[None, :, None])[0, :, 0]

    start = torch.zeros_like(inverse)
    start[labelled] = weights.double()
    ended = start
    for _ in range(_STEPS):
        ended = (1 - _WALK) * start + _WALK * inverse * times(graph, ended)
    squared = replace(graph, weights=graph.weights.square())
    returned = inverse * times(squared, inverse)  # diagonal of P^2, for a symmetric W
    return ended - (1 - _WALK) * start * (1 + _WALK**2 * returned)
