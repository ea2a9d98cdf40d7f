"""Settings of the optimiser for a `model`, a `clustering.SLK`, and the execution of its starts."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import NARROWEST, Above, AtLeast
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.neighbours import NeighbourGraph
from clustering.graphs.row_graph import graph_and_variance
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.alternation import Alternation, Clamp, Sweeps
from clustering.optimiser.prototypes import ByProductModes, Means, Medoids, Modes, Rule
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds, prototypes_about, prototypes_of
from clustering.slk.race import race, ranked, sample
from clustering.starts import Ranking
from clustering.trials import Course, run_trials

COLDEST = 2.0**-10
"""Lowest temperature, used if there is almost no graph; assignments are then practically hard."""

_BLURRED = 0.35
"""Mean entropy of assignments, as a share of log K, above which a lower temperature gives better labels. Good labels
have 0.02 to 0.3; if neighbours no longer agree, it jumps to 0.5 to 1 (digits and MNIST, K from 5 to 50)."""

WARM_UP = 6
"""Number of updates with a single mean-shift step before prototypes become rows of X, which hardly move afterwards."""


Normalisation = Literal["l2"] | None
"""How rows are scaled: divided by their Euclidean norm, or not at all."""

SymmetricKind = Literal["average", "union", "mutual"]
"""How the directed kNN graph is made symmetric."""

Bandwidth = Literal["estimate", "published"] | Annotated[float, AtLeast(NARROWEST)]
"""sigma of the kernel, or how to estimate it."""

Temperature = Literal["auto"] | Annotated[float, Above(0)]
"""T, the weight of the entropy, or its choice by the mean degree of the graph."""

OnEmpty = Literal["reseed", "keep"]
"""How to treat an empty cluster."""

Path = Sequence[float] | None
"""Rising shares of the weight for continuation, or none."""


class Neighbours(NamedTuple):
    """W of N points, sigma^2, and the time of their computation in seconds."""

    graph: SparseGraph
    variance: float
    seconds: float

    @property
    def degree(self) -> float:
        """Mean sum of the weights of a point's arcs."""
        return float(self.graph.weights.sum(dtype=torch.float64)) / self.graph.points


class FitResult(NamedTuple):
    """Results of T trials with the same rule."""

    trials: Alternation
    ranking: Ranking
    rule: Rule
    near: Neighbours
    seconds: Seconds
    temperature: float


def races(model: Any) -> bool:
    """Whether starts race. With a weight path they do not, since each would first have to follow the whole path."""
    return model.n_init > 1 and isinstance(model.init, str) and not weight_path(model)


def weight_path(model: Any) -> tuple[float, ...]:
    """The shares of the weight that precede the full weight.

    Raises:
        InputError: the shares do not rise from at least 0 to below 1.
    """
    try:
        path = tuple(float(share) for share in (model.weight_path if model.weight_path is not None else ()))
    except (TypeError, ValueError):
        path = (math.nan,)
    if not all(0 <= low < high for low, high in pairwise((*path, 1.0))):
        raise InputError(
            f"SLK: weight_path must be increasing fractions of weight in [0, 1), not {model.weight_path!r}"
        )
    return path


def neighbours_used(model: Any, points: int) -> int:
    """Neighbours of a point in the graph: at most as many as other points are in a cluster of mean size. With more,
    the graph would join clusters however far they are apart."""
    return int(min(model.n_neighbors, max(1, points // model.n_clusters - 1)))


def neighbours_of(model: Any, source: Any, rows: Rows) -> Neighbours:
    """W as given or built, and sigma^2 according to `bandwidth`."""
    watch, neighbours = Stopwatch(), neighbours_used(model, len(rows.values))
    graph, variance = graph_and_variance(source, rows, neighbours, model.symmetry, model.bandwidth)
    return Neighbours(graph, variance, watch.lap())


def rule_of(model: Any, rows: Rows, variance: float) -> Rule:
    """Rule that computes prototypes from the assignments of these rows, according to `prototypes`."""
    if model.prototypes == "mean":
        return Means(rows)
    if model.prototypes == "medoid":
        return Medoids(rows)
    if model.prototypes == "byproduct":
        return ByProductModes(rows, variance)
    return Modes(rows, variance)


def temperatures_of(model: Any, degree: float) -> tuple[float, ...]:
    """Weights of the entropy in R that are tried in turn until assignments are not `blurred`.

    By default these are 1.5 times and once the temperature above which the graph cannot separate clusters. At uniform S
    the Jacobian of the update softmax(c W S / T), c = 2 weight, has the largest eigenvalue c d / (K T) with d the mean
    degree. If c d < K T, points whose costs differ by less than T therefore stay uniform over clusters (the mean field
    of the Potts model is disordered). Larger differences of costs, and neighbours of neighbours, preserve order
    somewhat above this temperature.
    """
    if model.temperature != "auto":
        return (float(model.temperature),)
    bound = 2 * model.weight * degree / model.n_clusters
    return tuple(dict.fromkeys(min(1.0, max(COLDEST, factor * bound)) for factor in (1.5, 1.0)))


def blurred(entropy: float, clusters: int) -> bool:
    """Whether assignments with this mean entropy, in nats, separate the clusters too little."""
    return entropy > _BLURRED * math.log(clusters)


def course_of(model: Any, temperature: float, *, warm: bool) -> Course:
    """Settings of the trials; `warm` sweeps start from the previous assignments."""
    return Course(
        Sweeps("monotone", model.max_sweeps, model.sweep_tol, warm=warm),
        model.mode_weights if model.prototypes in ("mean", "mean_shift") else "soft",
        "reseed" if model.on_empty == "reseed" else "keep",
        model.max_iter,
        model.tol,
        temperature,
    )


def run(
    model: Any,
    rows: Rows,
    near: Neighbours,
    seeds: Tensor,
    weights: Sequence[float],
    clamp: Clamp | None = None,
    *,
    temperature: float,
    seeding: float = 0.0,
    raced: bool = False,
) -> FitResult:
    """Run one trial for each of the seeds (T, K, D), with its weight, as one batch; `seeding` is the time of the seeds.

    Seeds that won a race are prototypes already, and need no cold sweeps for exploration.
    """
    watch = Stopwatch()
    graph, variance, _ = near
    rule = rule_of(model, rows, variance)
    course = course_of(model, temperature, warm=model.warm_start or raced)
    slopes = 2 * seeds.new_tensor(weights)
    if model.prototypes in ("byproduct", "medoid"):
        shift = Modes(rows, variance, steps=1)
        brief = replace(course, max_iterations=WARM_UP, empty="keep")
        initial = seeds if raced else prototypes_about(seeds, rows, shift, clamp)
        warm_up = run_trials(shift, graph, initial, slopes, clamp=clamp, course=brief)
        start = prototypes_of(warm_up.labels, rule, rows.at(rows.nearest(warm_up.coefficients)))
    elif raced:
        start = seeds
    else:
        start = prototypes_about(seeds, rows, rule, clamp)
    trials = run_trials(rule, graph, start, slopes, path=weight_path(model), clamp=clamp, course=course)
    compared = ranked(trials, rule, graph, weights, model.select)
    return FitResult(trials, compared, rule, near, Seconds(near.seconds, seeding, watch.lap()), temperature)


def race_starts(
    model: Any, rows: Rows, near: Neighbours, clamp: Clamp | None, *, temperature: float, whole: bool
) -> tuple[Tensor, NDArray[np.float64], Seconds]:
    """(1, K, D) prototypes of the best of the starts, (T,) E of each start when it stopped, and the times of seeding
    and race.

    The race uses a sample, unless labels are known or the graph contains information that the rows do not (`whole`).
    """
    watch, points = Stopwatch(), len(rows.values)
    subset, indices = rows, None
    if clamp is None and not whole:
        indices = sample(points, model.n_clusters, stream(seed_of(model.random_state), "race"))
    if indices is not None:
        subset = Rows(rows.values[indices.to(rows.values.device)], rows.origin)

    def seeds_of(some: Rows) -> Tensor:
        return first_seeds(model.init, some, model.n_clusters, model.n_init, model.random_state, clamp)

    try:
        seeds = seeds_of(subset)
    except InputError:
        if indices is None:
            raise
        subset, indices = rows, None  # the sample has too few distinct rows
        seeds = seeds_of(subset)
    seeding = watch.lap()
    if indices is not None:
        near = neighbours_of(model, None, subset)
    rule = Means(subset) if model.prototypes == "mean" else Modes(subset, near.variance, steps=1)
    course, weight = course_of(model, temperature, warm=False), float(model.weight)
    best, energies = race(rule, near.graph, seeds, 2 * weight, weight, model.select, clamp=clamp, course=course)
    scaled = energies.cpu().numpy() * (points / len(subset.values))
    return best, scaled, Seconds(0.0, seeding, watch.lap())


def is_custom_graph(graph: Any) -> bool:
    """Whether a graph passed to `fit` may differ from the graph of nearest rows."""
    return graph is not None and not isinstance(graph, (NeighbourGraph, SparseGraph))
