"""Selection among many starts by successive halving (Jamieson and Talwalkar 2016), on a sample if there are many
points.

Starts differ by far more than their last updates, and a few thousand points are enough to compare them. All starts are
updated a few times on a sample of the points with a graph of its own, and the best quarter is updated until
convergence. The best few are modified (`clustering.slk.split_merge`) as long as that is better, and the winner
continues with all points from its prototypes.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.alternation import Alternation, Clamp
from clustering.optimiser.prototypes import Rule
from clustering.seeding import prototypes_about
from clustering.slk.split_merge import Ends, split_and_merged
from clustering.starts import Ranking, Select, cluster_sizes, compared
from clustering.trials import Course, discrete_energy, run_trials

_SAMPLE, _MEMBERS = 8192, 256
"""Size of a sample, and minimum number of its points per cluster."""

_FIRST_UPDATES, _KEPT = 3, 0.25
"""Number of updates of all starts, and the share of starts that continue."""

_SWEEPS, _TOLERANCE = 20, 1e-3
"""Maximum number of sweeps between two updates, and the relative change at which they stop."""

_TOGETHER = 1 << 19
"""Number of assignments processed at a time: about a dozen arrays of 2 MiB in float32, which fit into the cache."""


def ranked(trials: Alternation, rule: Rule, graph: SparseGraph, weights: Sequence[float], select: Select) -> Ranking:
    """Criteria of trials.

    "information" is R - 2 N H, with H the entropy of the cluster shares in nats: cost and graph term minus N times the
    mutual information of points and clusters, minus another N H. It prefers even sizes and therefore counts only among
    trials whose E is near the lowest (`clustering.starts.NEARLY`).

    Args:
        trials: T trials.
        rule: their rule.
        graph: W.
        weights: T values of lambda.
        select: selection criterion.
    """
    labels = trials.labels
    sizes = cluster_sizes(labels, trials.assignments.shape[2])
    energies = discrete_energy(rule.cost(trials.coefficients), labels, graph, sizes.new_tensor(weights))
    return compared(energies, trials.objective, sizes, trials.outcome, select)


def sample(points: int, clusters: int, stream: np.random.Generator) -> Tensor | None:
    """(n,) ascending indices of a sample of the points for a race; None if there are too few points for a sample."""
    size = sampled(points, clusters)
    if size == points:
        return None
    return torch.from_numpy(np.sort(stream.choice(points, size, replace=False, shuffle=False)))


def sampled(points: int, clusters: int) -> int:
    """Number of points that race."""
    size = max(_SAMPLE, _MEMBERS * clusters)
    return points if points < 2 * size else size


def race(
    rule: Rule,
    graph: SparseGraph,
    seeds: Tensor,
    slope: float,
    weight: float,
    select: Select,
    *,
    clamp: Clamp | None,
    course: Course,
) -> tuple[Tensor, Tensor]:
    """The prototypes (1, K, D) of the best start, and E (T,) of each start when it stopped.

    If no points are known, the prototypes are modified as long as that is better.

    Args:
        rule: rule for the rows of the sample.
        graph: graph of these rows.
        seeds: (T, K, D) seeds of the starts.
        slope: c of the update softmax(-cost + c W S).
        weight: lambda of E.
        select: selection criterion.
        clamp: (mask (n,), labels (n,)) of known rows.
        course: settings of the final trials; the race uses fewer sweeps.
    """
    brief = replace(
        course.sweeps,
        max_iterations=min(course.sweeps.max_iterations, _SWEEPS),
        tolerance=max(course.sweeps.tolerance, _TOLERANCE),
        gap_tolerance=1.0,
        warm=False,
    )
    rest = replace(course, sweeps=brief)
    few = replace(rest, max_iterations=min(course.max_iterations, _FIRST_UPDATES))
    energies = seeds.new_zeros(len(seeds), dtype=torch.float64)
    left, start = torch.arange(len(seeds), device=seeds.device), prototypes_about(seeds, rule.rows, rule, clamp)
    run = partial(_run, rule, graph, slope, weight, select, clamp)
    for heat, kept in ((few, max(1, round(_KEPT * len(seeds)))), (rest, len(seeds))):
        ends = run(heat, start)
        energies[left] = ends.ranking.energies
        winners = ends.ranking.order(start.dtype)[:kept]
        left, ends = left[winners], ends.at(winners)
        start = ends.prototypes
    if clamp is None and len(rule.rows.values) <= 2 * _SAMPLE:  # too slow for all points of a custom graph
        ends = split_and_merged(rule, graph, ends, weight, select, partial(run, rest))
    return ends.prototypes[:1], energies


def _run(
    rule: Rule,
    graph: SparseGraph,
    slope: float,
    weight: float,
    select: Select,
    clamp: Clamp | None,
    course: Course,
    start: Tensor,
) -> Ends:
    """Results from prototypes (T, K, D), computed in batches."""
    ends = []
    for batch in torch.split(start, max(1, _TOGETHER // (len(rule.rows.values) * start.shape[1]))):
        trials = run_trials(rule, graph, batch, batch.new_full((len(batch),), slope), clamp=clamp, course=course)
        compared = ranked(trials, rule, graph, [weight] * len(batch), select)
        ends.append(Ends(trials.coefficients, trials.labels, compared))
    return Ends.joined(*ends)
