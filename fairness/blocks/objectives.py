"""Objectives of hard labels for points in blocks, as in `fairness.objectives`."""

import numpy as np
import torch
from torch import Tensor

from fairness.blocks.points import BlockPoints
from fairness.objectives import Medoids
from fairness.optimiser.prototypes import GeometricMedians, Paid, Pulls, SquaredDistances
from fairness.optimiser.store import Labels, Moments

_CANDIDATES = 64
"""Number of medoid candidates, the members nearest to the geometric median."""

_MEDIANS = GeometricMedians(steps=50, tolerance=1e-9)


def _weighed(rows: Tensor, norms: Tensor, s: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
    return s.sum(dim=1), s @ rows


def kmeans_objective(points: BlockPoints, labels: Labels) -> float:
    """sum_p ||x_p - mean of its cluster||^2."""
    logs = points.begin(labels, 0.0)
    mass, sums = points.sums(logs, _weighed)
    return float(points.sums(logs, Paid(SquaredDistances(sums / mass.clamp_min(1e-300)[:, None])))[0].sum())


def medoids(points: BlockPoints, labels: Labels) -> Medoids:
    """Medoids of clusters of any size: the best of the 64 members nearest to the geometric median."""
    logs, sizes = points.begin(labels, 0.0), points.counts(labels).sum(dim=0)
    mass, sums = points.sums(logs, _weighed)
    means = sums / mass.clamp_min(1e-300)[:, None]
    medians = _MEDIANS.update(points, logs, means, Moments(mass[None], sums, mass))
    totals, pulls, at_median, sums = points.sums(logs, Pulls(medians, 0.0))
    slopes = ((sums - pulls[:, None] * medians).norm(dim=1) - at_median).clamp_min(0)
    bounds = totals * (1 - 2 * slopes / sizes.clamp_min(1)).clamp_min(0)  # the bound of `geometric_median`
    indices, rows = points.nearest(labels, medians, _CANDIDATES)
    costs = points.distances(labels, rows).masked_fill(indices < 0, torch.inf)
    best = costs.min(dim=1)
    nonempty = sizes > 0
    total, bound = float(best.values[nonempty].sum()), float(bounds[nonempty].sum())
    return Medoids(
        indices.gather(1, best.indices[:, None])[:, 0].numpy(),
        torch.where(nonempty, best.values, 0.0).numpy().astype(np.float64),
        total / bound - 1 if bound else 0.0,
    )
