"""The optimisation problem of a `clustering.SLK`, and its solution from several starts in one batch over one graph."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clustering.energy import discrete_energy
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.alternation import Alternation, Clamp, Empty, Outcome, Sweeps, alternate
from clustering.optimiser.prototypes import ByProductModes, Means, Modes, Rule
from clustering.optimiser.rows import Rows
from clustering.optimiser.terms import Laplacian
from clustering.seeding import prototypes_about, prototypes_of
from clustering.starts import NEARLY, Ranking, cluster_sizes

COLDEST = 2.0**-10
"""Lowest temperature, used if there is almost no graph; assignments are then practically hard."""

_BLURRED = 0.35
"""Mean entropy of assignments, as a share of log K, above which a lower temperature gives better labels. Good labels
have 0.02 to 0.3; if neighbours no longer agree, it jumps to 0.5 to 1 (digits and MNIST, K from 5 to 50)."""

WARM_UP = 6
"""Number of updates with a single mean-shift step before prototypes become rows of X, which hardly move afterwards."""

_UPDATES, _TOLERANCE = 100, 1e-4
"""Maximum number of updates of the prototypes, and the relative change of R at which they stop."""

_SWEEPS, _SWEEP_TOLERANCE = 50, 1e-4
"""Maximum number of sweeps over S between two updates, and the relative change of R at which they stop."""


class Ends(NamedTuple):
    """Results of T starts.

    Attributes:
        prototypes: (T, K, D).
        labels: (T, N).
        ranking: criteria of the starts.
    """

    prototypes: Tensor
    labels: Tensor
    ranking: Ranking

    @classmethod
    def joined(cls, *ends: "Ends") -> "Ends":
        """Concatenate results."""
        prototypes, labels, rankings = zip(*ends, strict=True)
        ranking = Ranking(*map(torch.cat, zip(*rankings, strict=True)))
        return cls(torch.cat(prototypes), torch.cat(labels), ranking)

    def at(self, indices: Tensor) -> "Ends":
        """A subset of the results."""
        ranking = Ranking(*(part[indices] for part in self.ranking))
        return Ends(self.prototypes[indices], self.labels[indices], ranking)


@dataclass(frozen=True)
class Problem:
    """R(S, M) = <S, cost(M)> + T <S, log S> - weight <S, W S> for points with prototypes M.

    Attributes:
        model: the `clustering.SLK` whose parameters apply.
        rows: N points.
        graph: W of the points.
        variance: sigma^2.
        clamp: (mask (N,), labels (N,)) of rows with known cluster.
        temperature: T.
    """

    model: Any
    rows: Rows
    graph: SparseGraph
    variance: float
    clamp: Clamp | None = None
    temperature: float = 1.0

    def run(
        self,
        rule: Rule,
        start: Tensor,
        sweeps: Sweeps,
        *,
        updates: int = _UPDATES,
        empty: Empty = "reseed",
    ) -> Alternation:
        """Minimise R from each start.

        Args:
            rule: rule of the prototypes.
            start: (T, K, D) initial prototypes.
            sweeps: settings of the updates of S, softmax((-cost + 2 weight W S) / T).
            updates: maximum number of updates of the prototypes.
            empty: as in `alternate`.
        """
        weight, clamp = 2 * self.model.weight, None
        if self.clamp is not None:
            clamp = self.clamp[0].expand(len(start), -1), self.clamp[1].expand(len(start), -1)
        return alternate(
            rule,
            start,
            [Laplacian(self.graph, start.new_full((len(start), 1, 1), weight))] if weight > 0 else [],
            clamp=clamp,
            temperature=self.temperature,
            empty=empty,
            sweeps=sweeps,
            max_iterations=updates,
            tolerance=_TOLERANCE,
            movements=True,
        )

    def ranked(self, rule: Rule, trials: Alternation) -> Ends:
        """Results of trials with their criteria.

        "information" is R - 2 N H, with H the entropy of the cluster shares in nats: cost and graph term minus N times
        the mutual information of points and clusters, minus another N H. It prefers even sizes and therefore counts
        only among trials whose E is near the lowest (`clustering.starts.NEARLY`).
        """
        labels = trials.labels
        sizes, points = cluster_sizes(labels, trials.assignments.shape[2]), labels.shape[1]
        energies = discrete_energy(rule.cost(trials.coefficients), labels, self.graph, self.model.weight)
        criteria = energies
        if self.model.select == "information":
            criteria = trials.objective - 2 * points * torch.special.entr(sizes / points).sum(dim=1)
        near = torch.full_like(energies, NEARLY * points)
        ranking = Ranking(energies, criteria, near, (sizes > 0).sum(dim=1), trials.outcome != Outcome.EMPTIED)
        return Ends(trials.coefficients, labels, ranking)

    def solved(self, seeds: Tensor, *, raced: bool) -> tuple[Rule, Alternation]:
        """Run the starts from seeds (T, K, D) to their end.

        Seeds that won a race are prototypes already, and need no cold sweeps for exploration.
        """
        rule = rule_of(self.model, self.rows, self.variance)
        sweeps = Sweeps(max_iterations=_SWEEPS, tolerance=_SWEEP_TOLERANCE, warm=raced)
        if isinstance(rule, ByProductModes):
            shift = Modes(self.rows, self.variance, steps=1)
            start = seeds if raced else prototypes_about(seeds, self.rows, shift, self.clamp)
            first = self.run(shift, start, sweeps, updates=WARM_UP, empty="keep")
            nearest = self.rows.squared_distances(first.coefficients).min(dim=2).indices
            start = prototypes_of(first.labels, rule, self.rows.at(nearest))
        else:
            start = seeds if raced else prototypes_about(seeds, self.rows, rule, self.clamp)
        return rule, self.run(rule, start, sweeps)


def rule_of(model: Any, rows: Rows, variance: float) -> Rule:
    """Rule that computes prototypes from the assignments of these rows, according to `prototypes`."""
    if model.prototypes == "mean":
        return Means(rows, beta=0.25 / variance)  # of 0.12, 0.25, 0.5 and 1 the best over digits and USPS together
    return ByProductModes(rows, variance) if model.prototypes == "byproduct" else Modes(rows, variance)


def temperatures_of(model: Any, graph: SparseGraph) -> tuple[float, ...]:
    """Weights of the entropy in R that are tried in turn until assignments are not `blurred`.

    By default these are 1.5 times and once the temperature above which the graph cannot separate clusters. At uniform S
    the Jacobian of the update softmax(c W S / T), c = 2 weight, has the largest eigenvalue c d / (K T) with d the mean
    degree. If c d < K T, points whose costs differ by less than T therefore stay uniform over clusters (the mean field
    of the Potts model is disordered). Larger differences of costs, and neighbours of neighbours, preserve order
    somewhat above this temperature.
    """
    if model.temperature != "auto":
        return (float(model.temperature),)
    degree = float(graph.weights.sum(dtype=torch.float64)) / graph.points
    bound = 2 * model.weight * degree / model.n_clusters_
    return tuple(dict.fromkeys(min(1.0, max(COLDEST, factor * bound)) for factor in (1.5, 1.0)))


def blurred(entropy: float, clusters: int) -> bool:
    """Whether assignments with this mean entropy, in nats, separate the clusters too little."""
    return entropy > _BLURRED * math.log(clusters)
