"""K-means or K-median with fair assignments, a cheap baseline for fair clustering."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from scipy.sparse import csr_array

from clustering.foundation.parameters import Within
from fairness.assignment import Assignment, bounds_about, fair_assignment
from fairness.metrics import largest_violation
from fairness.objectives import Kind, geometric_median, objective_of
from fairness.optimiser.flow_rounding import rounded
from fairness.rivals.base import Alternating, Course, Data, Floats, costs


@dataclass(eq=False, repr=False)
class FairLloyd(Alternating):
    """K-means or K-median with the cheapest fair assignment in place of the assignment to the nearest centre.

    Starting from the centres of the unfair method, alternates between two steps. The first is the assignment of minimum
    cost under which the share of every group in every cluster is between mu_j (1 - delta) and mu_j / (1 - delta), the
    linear programme of Bera et al. (2019), solved exactly at full size. The second updates the means or geometric
    medians of the clusters. Neither raises the cost, so that it falls to a local minimum. Memory: N K float64 costs
    besides X. Time: about ten assignments per start.

    Parameters
    ----------
    kind : "kmeans" (squared distances) or "kmedian" (distances).
    delta : tolerance of the shares, 0..0.99; 0 demands the exact target, up to rounding to whole points.
    target : target shares mu, see `fairness.groups.groups_of`; None uses the shares in the data.

    For the other parameters, and the other fitted attributes, see `fairness.rivals.base.Alternating`.

    Attributes
    ----------
    labels_ : (N,) int, rounded from the fractional assignment, see `fairness.optimiser.flow_rounding`.
    cluster_centers_ : (K, D) means or geometric medians.
    history_ : (n_iter_,) cost of the fractional assignment after each turn; it never rises.
    violation_ : largest number of points by which the count of a group in a cluster violates its bounds; below 2 with
        one attribute.
    """

    _: KW_ONLY
    kind: Kind = "kmeans"
    delta: Annotated[float, Within(0, 0.99)] = 0.0
    target: Any = None

    def _cluster(self, data: Data) -> None:
        super()._cluster(data)
        self.violation_ = largest_violation(self.group_counts_, data.groups, self.delta)

    def _course(self, data: Data, centres: Floats, generator: np.random.Generator) -> Course:
        values, groups = data.values, data.groups
        bounds = bounds_about(groups.target, self.delta)
        assignment: Assignment | None = None
        history: list[float] = []
        for _ in range(self.max_iter):
            cost = costs(values, centres, self.kind)
            assignment = fair_assignment(cost, groups, *bounds, generator=generator, near=assignment)
            history.append(assignment.value)
            if self._settled(history):
                break
            centres = self._moved(assignment.shares, values, centres)
        assert assignment is not None
        labels = rounded(assignment.shares, cost, groups.cells)
        integral = csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)), shape=cost.shape)
        centres = self._moved(integral, values, centres)
        return Course(labels, centres, objective_of(self.kind, values, labels), history)

    def _moved(self, shares: csr_array, values: Floats, centres: Floats) -> Floats:
        """(K, D) updated centres for shares (N, K) of points (N, D), which cost no more than the previous ones."""
        return (means if self.kind == "kmeans" else medians)(shares, values, centres)


def means(shares: csr_array, values: Floats, centres: Floats) -> Floats:
    """(K, D) means of points (N, D) weighted by shares (N, K); an empty cluster keeps its centre."""
    sizes = np.asarray(shares.sum(axis=0)).ravel()
    filled = (sizes > 1e-9)[:, None]
    return np.where(filled, (shares.T @ values) / np.where(filled, sizes[:, None], 1.0), centres)


def medians(shares: csr_array, values: Floats, centres: Floats) -> Floats:
    """(K, D) geometric medians of the points (N, D) that have their largest share (N, K) in a cluster.

    A centre is kept if the median does not lower the cost of the cluster's shares. Few points have shares in several
    clusters.
    """
    moved = centres.copy()
    columns = shares.tocsc()
    for k in range(len(centres)):
        part = slice(columns.indptr[k], columns.indptr[k + 1])
        points, weights = values[columns.indices[part]], columns.data[part]
        if not (weights > 0.5).any():
            continue
        median = geometric_median(points[weights > 0.5], max_iterations=50)[0]
        paid = [weights @ np.linalg.norm(points - centre, axis=1) for centre in (centres[k], median)]
        if paid[1] < paid[0]:
            moved[k] = median
    return moved
