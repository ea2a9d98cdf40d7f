"""Which of many starts to go on with: successive halving (Jamieson and Talwalkar 2016), on a sample where that will do.

Starts differ by far more than their last updates change them, and a few thousand points tell which is good. So all
starts are updated a few times on a sample of the points with a graph of its own, the best quarter until they stay. The
first few of these are changed (`clustering.slk.split_merge`) as long as that is better, and one goes on, from its
prototypes, with all points.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.alternation import Clamp
from clustering.optimiser.centres import Rule
from clustering.optimiser.trials import Course, Trials, discrete_energy, run_trials
from clustering.seeding import prototypes_about
from clustering.slk.split_merge import Ends, split_and_merged
from clustering.starts import Ranking, Select, cluster_sizes, compared

_SAMPLE, _MEMBERS = 8192, 256
"""Points of a sample, and for each cluster at least."""

_FIRST_UPDATES, _KEPT = 3, 0.25
"""Updates of all starts, and the share of them that goes on."""

_SWEEPS, _TOLERANCE = 20, 1e-3
"""Of the assignments between two updates: at most, and the relative change at which they end."""

_TOGETHER = 1 << 19
"""Assignments that are worked on together: about a dozen arrays of 2 MiB in float32, near the processor."""


def ranked(found: Trials, rule: Rule, graph: SparseGraph, weights: Sequence[float], select: Select) -> Ranking:
    """How trials compare.

    "information" is R - 2 N H, with H the entropy of the clusters' shares in nats: the cost and the graph's term less N
    times the mutual information of points and clusters, and N H once more. It prefers even sizes, and so counts only
    among trials whose E is nearly the lowest (`clustering.evaluation.protocol.NEARLY`).

    Args:
        found: T trials.
        rule: by which they were found.
        graph: W.
        weights: T times lambda.
        select: what is compared.
    """
    labels = found.labels
    sizes = cluster_sizes(labels, found.assignments.shape[2])
    energies = discrete_energy(rule.cost(found.prototypes), labels, graph, sizes.new_tensor(weights))
    return compared(energies, found.objective, sizes, found.outcome, select)


def sample(points: int, clusters: int, stream: np.random.Generator) -> Tensor | None:
    """(n,) indices, ascending, of points that stand for all of them in a race; None where all are as few."""
    size = sampled(points, clusters)
    if size == points:
        return None
    return torch.from_numpy(np.sort(stream.choice(points, size, replace=False, shuffle=False)))


def sampled(points: int, clusters: int) -> int:
    """How many of the points race."""
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
    """The prototypes (1, K, D) of the best of the starts, changed where that is better and no points are known, and E
    (T,) of every start where it was left.

    Args:
        rule: over the rows of the sample.
        graph: of these rows.
        seeds: (T, K, D) of the starts.
        slope: c of the update softmax(-cost + c W S).
        weight: lambda of E.
        select: what is compared.
        clamp: (mask (n,), labels (n,)) of known rows.
        course: how trials are run to their end; here in fewer sweeps.
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
    if clamp is None and len(rule.rows.values) <= 2 * _SAMPLE:  # else of all points of a graph of one's own: too slow
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
    """Where prototypes (T, K, D) lead, some of them at a time."""
    ends = []
    for some in torch.split(start, max(1, _TOGETHER // (len(rule.rows.values) * start.shape[1]))):
        found = run_trials(rule, graph, some, some.new_full((len(some),), slope), clamp=clamp, course=course)
        compared = ranked(found, rule, graph, [weight] * len(some), select)
        ends.append(Ends(found.prototypes, found.labels, compared))
    return Ends.joined(*ends)
