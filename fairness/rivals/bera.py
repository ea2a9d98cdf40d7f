"""Fair assignment to the centres of an unfair clustering (Bera, Chakrabarty, Flores and Negahbani, NeurIPS 2019)."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np

from clustering.foundation.parameters import AtLeast, Within
from clustering.foundation.streams import stream
from clustering.foundation.timing import Seconds
from fairness.assignment import bounds_about, fair_assignment
from fairness.fit_input import seeds_among
from fairness.metrics import largest_violation
from fairness.objectives import Kind, objective_of
from fairness.optimiser.flow_rounding import rounded
from fairness.rivals.base import Data, WithCentres, best_centres, costs, unfair_centres


@dataclass(eq=False, repr=False)
class Bera(WithCentres):
    """Reassigns points to the centres of K-means or K-median at the lowest cost under bounds on the groups.

    The share of every group in every cluster must be between mu_j (1 - delta) and mu_j / (1 - delta).

    The linear programme is solved exactly at full size (`fairness.assignment`), and rounded by a flow
    (`fairness.optimiser.flow_rounding`), whereas the paper drops constraints. There may be any number of groups, which
    overlap if there are several attributes. The centres are fixed; `FairLloyd` updates them. Memory: N K float64 costs
    besides X.

    Parameters
    ----------
    kind : clustering that provides the centres and costs: "kmeans" (squared distances) or "kmedian" (distances).
    delta : tolerance of the shares, 0..0.99; 0.2 in the paper.
    target : target shares mu, see `fairness.groups.groups_of`; None uses the shares in the data.
    max_iter : maximum number of iterations of the unfair clustering.

    For the other parameters, and the other fitted attributes, see `fairness.rivals.base.WithCentres`.

    Attributes
    ----------
    cluster_centers_ : (K, D) centres of the unfair clustering. unfair_objective_ : its objective.
    assignment_cost_ : cost of assigning the labels to cluster_centers_. lp_value_ : cost of the fractional assignment,
        the lowest under the bounds, and the only value of `history_`.
    violation_ : largest number of points by which the count of a group in a cluster violates its bounds; below 2 with
        one attribute.
    n_fractional_ : number of points that were rounded.
    """

    _: KW_ONLY
    kind: Kind = "kmeans"
    delta: Annotated[float, Within(0, 0.99)] = 0.2
    target: Any = None
    max_iter: Annotated[int, AtLeast(1)] = 300

    def _cluster(self, data: Data) -> None:
        values, groups = data.values, data.groups
        seeds = seeds_among(self, values)
        seeding = data.watch.lap()
        unfair = best_centres(unfair_centres(self.kind, values, seeds, self.max_iter))
        cost = costs(values, unfair.values, self.kind)
        assignment = fair_assignment(
            cost, groups, *bounds_about(groups.target, self.delta), generator=stream(data.seed, "fair assignment")
        )
        labels = rounded(assignment.shares, cost, groups.cells)
        self.unfair_objective_, self.lp_value_ = unfair.objective, assignment.value
        self.assignment_cost_ = float(cost[np.arange(len(cost)), labels].sum())
        self.n_fractional_ = int((np.diff(assignment.shares.indptr) > 1).sum())
        self.violation_ = largest_violation(groups.counts(labels, self.n_clusters), groups, self.delta)
        objective = objective_of(self.kind, values, labels)
        seconds = Seconds(0.0, seeding, data.watch.lap())
        self._keep(labels, groups, objective, [assignment.value], seconds, unfair.values)
