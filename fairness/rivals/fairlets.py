"""Fairlets, small sets of points with a minimum balance of two groups, and clusterings that keep them together."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from clustering.foundation.timing import Seconds, Stopwatch
from fairness.groups import Groups
from fairness.objectives import medoids, objective_of
from fairness.reporting import keep_labels
from fairness.rivals.given import Floats, Given, Ints
from fairness.rivals.unfair import Centres, best_centres, costs, unfair_centres

_PAIRS = 1 << 21
"""Number of distances between members of fairlets computed at a time: 16 MiB."""


def wanted_balance(balance: Sequence[int] | None, groups: Groups, owner: str, most: int) -> tuple[int, int]:
    """(p, q) without common factors: in every fairlet, one group has at least p / q as many points as the other.

    Args:
        balance: p and q; None uses the largest p / q with p + q <= `most` that the data allows.
        groups: two groups.
        owner: name of the estimator, for messages.
        most: largest p + q by default.

    Raises:
        InputError: the balance is invalid, or above that of the data.
    """
    fewer, more = sorted(groups.sizes.tolist())
    if balance is None:
        fractions = (Fraction(p, q) for q in range(1, most) for p in range(1, min(q, most - q) + 1))
        possible = [fraction for fraction in fractions if fraction <= Fraction(fewer, more)]
        chosen = max(possible, default=Fraction(1, -(-more // fewer)))
    else:
        if len(balance) != 2 or not 1 <= balance[0] <= balance[1]:
            raise InputError(f"{owner}: balance must be two integers p, q with 1 <= p <= q, not {tuple(balance)}")
        chosen = Fraction(int(balance[0]), int(balance[1]))
    if chosen > Fraction(fewer, more):
        raise InputError(
            f"{owner}: balance={chosen.numerator}/{chosen.denominator} is unreachable: the groups have {fewer} "
            f"and {more} points, a balance of {fewer / more:.4f}; set balance to at most that, such as 1, "
            f"{math.ceil(more / fewer)}"
        )
    return chosen.numerator, chosen.denominator


def representatives(values: Floats, fairlets: Ints) -> tuple[Floats, float]:
    """The medoid (N, D) of each point's fairlet, and the sum of all distances to these medoids.

    Args:
        values: (N, D).
        fairlets: (N,) 0..F-1.
    """
    order = np.argsort(fairlets, kind="stable")
    sizes = np.bincount(fairlets)
    starts = np.cumsum(sizes) - sizes
    chosen, total = np.empty(len(sizes), dtype=np.int64), 0.0
    for size in np.unique(sizes):
        same_size = np.flatnonzero(sizes == size)
        for block in np.array_split(same_size, max(1, -(-len(same_size) * size * size // _PAIRS))):
            members = order[starts[block][:, None] + np.arange(size)]
            points = values[members]
            distances = np.linalg.norm(points[:, :, None] - points[:, None, :], axis=3).sum(axis=2)
            best = distances.argmin(axis=1)
            chosen[block] = members[np.arange(len(block)), best]
            total += float(distances.min(axis=1).sum())
    return values[chosen[fairlets]], total


def fit_fairlets(estimator: Any, data: Given, fairlets: Ints, watch: Stopwatch) -> None:
    """Cluster the points at the positions of their fairlet centres (Chierichetti et al. 2017, section 4).

    Sets the fitted attributes.

    Args:
        estimator: with `kind`, `n_clusters`, `n_init`, `init` and `max_iter`.
        data: points and groups.
        fairlets: (N,) 0..F-1.
        watch: stopwatch started at the begin of the fit.
    """
    places, spread = representatives(data.values, fairlets)
    distinct = np.unique(places, axis=0)
    if len(distinct) < estimator.n_clusters:  # every fairlet is a cluster, and the other clusters are empty
        lacking = estimator.n_clusters - len(distinct)
        seeding, best = watch.lap(), Centres(np.concatenate([distinct, distinct[[-1] * lacking]]), 0.0)
    else:
        seeds = data.seeds(estimator, places)
        seeding = watch.lap()
        best = best_centres(unfair_centres(estimator.kind, places, seeds, estimator.max_iter))
    labels: NDArray[np.int64] = costs(places, best.values, estimator.kind).argmin(axis=1)
    centres = best.values.copy()
    if estimator.kind == "kmedian":
        medoid_rows = medoids(data.values, labels).indices
        centres[: len(medoid_rows)][medoid_rows >= 0] = data.values[medoid_rows[medoid_rows >= 0]]
    else:
        for k in np.unique(labels):
            centres[k] = data.values[labels == k].mean(axis=0)
    estimator.fairlets_, estimator.fairlet_cost_ = fairlets, spread
    objective = objective_of(estimator.kind, data.values, labels)
    seconds = Seconds(0.0, seeding, watch.lap())
    keep_labels(estimator, labels, data.groups, objective, [best.objective], seconds, centres)
