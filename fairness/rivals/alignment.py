"""Fair clustering via alignment (Kim, Lee, Park and Kim, ICML 2025), K-means."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

import numpy as np
import sklearn.cluster
from scipy.sparse import csr_array

from clustering.foundation.parameters import Within
from fairness.assignment import Assignment, fair_assignment
from fairness.objectives import kmeans_objective
from fairness.optimiser.flow_rounding import rounded
from fairness.rivals.base import Alternating, Course, Data, Floats, Ints, costs


@dataclass(eq=False, repr=False)
class FairAlignment(Alternating):
    """K-means of aligned points, where each aligned point is the mean of one point per group, weighted by group size.

    With pi_j the share of group j, T the weighted mean of (x_1..x_J), and any centre c,

        sum_j pi_j ||x_j - c||^2  =  ||T - c||^2  +  sum_j pi_j ||x_j - T||^2,

    so fair K-means is K-means of the points T of a joint distribution of the groups, plus the cost of alignment. The
    method alternates between the best joint distribution for the centres, which is an optimal transport between groups,
    and K-means of the aligned points. Neither step raises the sum, whose values are in `history_`.

    The paper solves the transport over all pairs, in parts of 1,024 points. The cost of a pair is the sum above at the
    best of K centres, so the same optimum is a flow through K hubs into which every group sends the same share of its
    points: the fair assignment with exact proportions. It has N K instead of n_1 n_2 variables and is solved here for
    all points at once, for any number of groups. Any pairing within a hub is optimal; points are paired in their order
    along the principal axis of the hub. The public code counts the cost of alignment twice and draws the cluster of a
    fractional point at random; here `fairness.optimiser.flow_rounding` decides it.

    With several attributes, each combination of their values is a group.

    Parameters
    ----------
    unaligned : share of the mass, 0..1, that needs no alignment, so that its points go to their nearest centres. The
        same programme chooses which mass (FCA-C, which chooses a set of pairs). 0 gives fair clusters, 1 gives K-means.

    For the other parameters, and the other fitted attributes, see `fairness.rivals.base.Alternating`.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point; the count of each group in each cluster is within one of the fractional
        one.
    history_ : (n_iter_,) cost of the joint distribution after each turn, times N.
    """

    crossed = True

    _: KW_ONLY
    unaligned: Annotated[float, Within(0, 1)] = 0.0

    def _course(self, data: Data, centres: Floats, generator: np.random.Generator) -> Course:
        values, groups = data.values, data.groups
        capacity = np.full(self.n_clusters + 1, np.inf)
        capacity[-1] = self.unaligned * len(values)
        assignment: Assignment | None = None
        history: list[float] = []
        for _ in range(self.max_iter):
            distances = costs(values, centres)
            hubs = np.concatenate([distances, distances.min(axis=1, keepdims=True)], axis=1)
            assignment = fair_assignment(
                hubs, groups, groups.target, groups.target, generator=generator, capacity=capacity, near=assignment
            )
            history.append(assignment.value)
            if self._settled(history):
                break
            points, masses = aligned(assignment.shares[:, :-1], values, groups.cells)
            unaligned_entries = assignment.shares[:, [-1]].tocoo()
            means = sklearn.cluster.KMeans(len(centres), init=centres, n_init=1).fit(
                np.concatenate([points, values[unaligned_entries.row]]),
                sample_weight=np.concatenate([masses, unaligned_entries.data]),
            )
            centres = means.cluster_centers_
        assert assignment is not None
        labels = rounded(assignment.shares, hubs, groups.cells)
        labels = np.where(labels == self.n_clusters, distances.argmin(axis=1), labels)
        return Course(labels, centres, kmeans_objective(values, labels), history)


def aligned(shares: csr_array, values: Floats, groups: Ints) -> tuple[Floats, Floats]:
    """Aligned points T (n, D), the weighted means of one point per group, and their masses (n,).

    Within a hub, the points of each group are laid out on an interval of the same length, in their order along the
    principal axis of the hub; points at the same position form one T. A hub has no more points T than members.

    Args:
        shares: (N, K); every group sends the same share of its points into each hub.
        values: (N, D).
        groups: (N,) group of each point, 0..J-1.
    """
    sizes = np.bincount(groups)
    portions = sizes / sizes.sum()
    means, masses = [np.empty((0, values.shape[1]))], [np.empty(0)]
    by_hub = shares.tocsc()
    for k in range(shares.shape[1]):
        column = slice(by_hub.indptr[k], by_hub.indptr[k + 1])
        members, mass = by_hub.indices[column], by_hub.data[column]
        inside = mass > 1e-12
        members, mass = members[inside], mass[inside]
        if len(np.unique(groups[members])) < len(sizes):  # mass due to rounding in the solver
            continue
        member_values = values[members]
        axis = np.linalg.eigh(np.atleast_2d(np.cov(member_values.T, aweights=mass, ddof=0)))[1][:, -1]
        order = np.lexsort((members, member_values @ axis))
        members, mass = members[order], mass[order]
        lanes = [np.flatnonzero(groups[members] == j) for j in range(len(sizes))]
        ends = [np.cumsum(mass[lane]) / mass[lane].sum() for lane in lanes]
        cuts = np.unique(np.concatenate(ends))
        cuts = cuts[np.diff(cuts, prepend=0.0) > 1e-12]
        widths = np.diff(cuts, prepend=0.0)
        middles = cuts - widths / 2
        mean = np.zeros((len(cuts), values.shape[1]))
        for portion, lane, end in zip(portions, lanes, ends, strict=True):
            positions = np.minimum(np.searchsorted(end, middles), len(lane) - 1)
            mean += portion * values[members[lane[positions]]]
        means.append(mean)
        masses.append(widths * mass.sum())
    return np.concatenate(means), np.concatenate(masses)
