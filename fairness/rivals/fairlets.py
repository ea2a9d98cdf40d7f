"""Fairlets, small sets of points with a minimum balance of two groups, and clusterings that keep them together."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction

import numpy as np

from clustering.foundation.errors import InputError
from clustering.foundation.timing import Seconds
from fairness.fit_input import seeds_among
from fairness.groups import Groups
from fairness.objectives import Kind, medoids, objective_of
from fairness.rivals.base import Centres, Data, Floats, Ints, WithCentres, best_centres, costs, unfair_centres

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


@dataclass(eq=False, repr=False)
class Fairlets(WithCentres):
    """A method for two groups that joins points to fairlets, and clusters the points at the positions of their fairlet
    centres by K-median or K-means (Chierichetti et al. 2017, section 4).

    Parameters
    ----------
    balance : p, q with p <= q, at most the balance of the data: in every fairlet, and hence in every cluster, one group
        has at least p / q as many points as the other.
    kind : "kmedian" (paper) or "kmeans".
    n_init : number of starts of the clustering; the one with the lowest cost of the fairlet centres is kept.

    For the other parameters, and the other fitted attributes, see `fairness.rivals.base.WithCentres`.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point; the points of a fairlet share a cluster.
    fairlets_ : (N,) int, 0..F-1, fairlet of each point. fairlet_cost_ : sum of the distances of all points to the
        centres of their fairlets.
    balance_wanted_ : (p, q), the balance of the fairlets.
    cluster_centers_ : (K, D) medoids, which are rows of X, or means of the clusters.
    history_ : (1,) clustering cost of the fairlet centres.
    """

    two_groups = True

    _: KW_ONLY
    balance: tuple[int, ...] | None = None
    kind: Kind = "kmedian"

    @abstractmethod
    def _fairlets(self, data: Data) -> Ints:
        """(N,) fairlets 0..F-1 of points of two groups; sets balance_wanted_."""

    def _cluster(self, data: Data) -> None:
        values, fairlets = data.values, np.arange(len(data.values))
        self.balance_wanted_ = (1, 1)
        if not data.groups.trivial:
            fairlets = self._fairlets(data)
        places, self.fairlet_cost_ = representatives(values, fairlets)
        self.fairlets_ = fairlets
        distinct = np.unique(places, axis=0)
        if len(distinct) < self.n_clusters:  # every fairlet is a cluster, and the other clusters are empty
            lacking = self.n_clusters - len(distinct)
            seeding, best = data.watch.lap(), Centres(np.concatenate([distinct, distinct[[-1] * lacking]]), 0.0)
        else:
            seeds = seeds_among(self, places)
            seeding = data.watch.lap()
            best = best_centres(unfair_centres(self.kind, places, seeds, self.max_iter))
        labels: Ints = costs(places, best.values, self.kind).argmin(axis=1)
        centres = best.values.copy()
        if self.kind == "kmedian":
            medoid_rows = medoids(values, labels).indices
            centres[: len(medoid_rows)][medoid_rows >= 0] = values[medoid_rows[medoid_rows >= 0]]
        else:
            for k in np.unique(labels):
                centres[k] = values[labels == k].mean(axis=0)
        seconds = Seconds(0.0, seeding, data.watch.lap())
        self._keep(labels, data.groups, objective_of(self.kind, values, labels), [best.objective], seconds, centres)
