"""Selection among many starts by successive halving (Jamieson and Talwalkar 2016), on a sample if there are many
points.

Starts differ by far more than their last updates, and a few thousand points are enough to compare them. All starts are
updated a few times on a sample of the points with a graph of its own, and the best quarter is updated until
convergence. The best few are modified (`clustering.slk.split_merge`) as long as that is better, and the winner
continues with all points from its prototypes.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.streams import seed_of, stream
from clustering.graphs.row_graph import graph_and_variance, neighbours_used
from clustering.optimiser.alternation import Sweeps
from clustering.optimiser.prototypes import Modes, Rule
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds, prototypes_about
from clustering.slk.fit import Ends, Problem, rule_of
from clustering.slk.split_merge import split_and_merged

_SAMPLE, _MEMBERS = 8192, 256
"""Size of a sample, and minimum number of its points per cluster."""

_FIRST_UPDATES, _KEPT, _MOST_UPDATES = 3, 0.25, 10
"""Number of updates of all starts, the share of starts that continue, and their maximum number of updates: nearly all
end after four to eight, and one that went in a circle for 100 took as long as all others."""

_SWEEPS = Sweeps(max_iterations=20, tolerance=1e-3, gap_tolerance=1.0, warm=False)
"""Fewer sweeps than in a fit."""

_TOGETHER = 1 << 19
"""Number of assignments processed at a time: about a dozen arrays of 2 MiB in float32, which fit into the cache."""


def racing(problem: Problem) -> tuple[Problem, Tensor]:
    """The problem of a random sample of the points, and the seeds (T, K, D) of the starts in it.

    It is the whole problem if there are too few points for a sample, or labels are known.
    """
    model, rows = problem.model, problem.rows
    size = max(_SAMPLE, _MEMBERS * model.n_clusters_)
    if problem.clamp is None and len(rows.values) >= 2 * size:
        draws = stream(seed_of(model.random_state), "race")
        drawn = np.sort(draws.choice(len(rows.values), size, replace=False, shuffle=False))
        some = Rows(rows.values[torch.from_numpy(drawn).to(rows.values.device)], rows.origin)
        try:
            seeds = seeds_of(model, some)
            near = neighbours_used(model.n_neighbors, size, model.n_clusters_)
            graph = graph_and_variance(None, some, near, "average", model.bandwidth)
            return Problem(model, some, *graph), seeds
        except InputError:  # the sample has too few distinct rows
            pass
    return problem, seeds_of(model, rows, problem.clamp)


def seeds_of(model: Any, rows: Rows, clamp: Any = None) -> Tensor:
    """(T, K, D) seeds of the starts."""
    return first_seeds(model.init, rows, model.n_clusters_, model.n_init, model.random_state, clamp, auto=48)


def race(problem: Problem, seeds: Tensor) -> tuple[Tensor, Tensor]:
    """The prototypes (1, K, D) of the best start, and E (T,) of all starts after their first updates.

    If no points are known, the prototypes are modified as long as that is better.

    Args:
        problem: the points that race.
        seeds: (T, K, D) seeds of the starts.
    """
    model, rows = problem.model, problem.rows
    # A single mean-shift step per update is enough to compare starts.
    rule: Rule = (
        rule_of(model, rows, problem.variance) if model.prototypes == "mean" else Modes(rows, problem.variance, steps=1)
    )

    def run(start: Tensor, updates: int = _MOST_UPDATES) -> Ends:
        batches = torch.split(start, max(1, _TOGETHER // (len(rows.values) * start.shape[1])))
        trials = (problem.run(rule, batch, _SWEEPS, updates=updates) for batch in batches)
        return Ends.joined(*(problem.ranked(rule, of_batch) for of_batch in trials))

    first = run(prototypes_about(seeds, rows, rule, problem.clamp), updates=_FIRST_UPDATES)
    winners = first.ranking.order(seeds.dtype)[: max(1, round(_KEPT * len(seeds)))]
    ends = run(first.prototypes[winners])
    ends = ends.at(ends.ranking.order(seeds.dtype))
    if problem.clamp is None and len(rows.values) <= 2 * _SAMPLE:  # too slow for all points of a custom graph
        ends = split_and_merged(rule, problem.graph, ends, model.weight, model.select, run)
    return ends.prototypes[:1], first.ranking.energies
