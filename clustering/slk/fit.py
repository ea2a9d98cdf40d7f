"""How `clustering.SLK` is fitted: what its parameters mean to the optimiser, and how its starts are run.

All of it is of rows in memory but for what `clustering.blocks.slk` takes of it, for rows on the workers of a cluster.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from clustering.estimator_input import Device
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.neighbours import NeighbourGraph
from clustering.graphs.row_graph import graph_and_variance
from clustering.graphs.sparse_graph import SparseGraph
from clustering.graphs.sparse_rows import SparseRows
from clustering.optimiser.alternation import Clamp, Members, Sweeps
from clustering.optimiser.centres import ByProductModes, Means, Medoids, Modes, Rows, Rule
from clustering.optimiser.trials import Course, Trials, run_trials
from clustering.seeding import first_seeds, prototypes_about, prototypes_of
from clustering.slk.race import race, ranked, sample
from clustering.starts import Ranking, Select

COLDEST = 2.0**-10
"""Lowest temperature, where there is hardly a graph: assignments are hard for all that matters."""

_BLURRED = 0.35
"""Mean entropy of assignments, as a share of log K, above which a lower temperature has better labels: of good labels
it is 0.02 to 0.3, and where neighbours no longer agree it jumps to 0.5 to 1 (digits and MNIST, K from 5 to 50)."""

WARM_UP = 6
"""Updates by a single mean-shift step that come before prototypes which are rows of X, and then hardly move."""


class Parameters(Protocol):
    """The parameters of `clustering.SLK` by which it is fitted; that class explains them."""

    n_clusters: int
    prototypes: Literal["mean", "mean_shift", "byproduct", "medoid"]
    weight: float
    n_neighbors: int
    normalize: Literal["l2"] | None
    init: str | ArrayLike
    n_init: int
    random_state: Any
    device: Device
    symmetry: Literal["average", "union", "mutual"]
    bandwidth: Literal["estimate", "published"] | float
    select: Select
    weight_path: Sequence[float] | None
    mode_weights: Members
    warm_start: bool
    temperature: Literal["auto"] | float
    on_empty: Literal["reseed", "keep", "drop"]
    max_iter: int
    tol: float
    max_sweeps: int
    sweep_tol: float


class Neighbours(NamedTuple):
    """W of N points, sigma^2, and the seconds that they took."""

    graph: SparseGraph
    variance: float
    seconds: float

    @property
    def degree(self) -> float:
        """Mean sum of the weights of a point's arcs."""
        return float(self.graph.weights.sum(dtype=torch.float64)) / self.graph.points


class Found(NamedTuple):
    """What T trials with one rule have found."""

    trials: Trials
    ranking: Ranking
    rule: Rule
    near: Neighbours
    seconds: Seconds
    temperature: float

    def of(self, trial: int) -> "Found":
        """One of them, as if it had been alone, which takes its share of the time."""
        some, share = slice(trial, trial + 1), 1 / len(self.ranking.energies)
        seconds = Seconds(self.seconds.graph, self.seconds.seeding * share, self.seconds.optimise * share)
        ranking = Ranking(*(part[some] for part in self.ranking))
        return self._replace(trials=self.trials.of(some), ranking=ranking, seconds=seconds)


class Winner(NamedTuple):
    """The start that won a race.

    Attributes:
        prototypes: (1, K, D).
        energies: (T,) E of all starts where they were left.
        seeding: seconds of the seeds.
        racing: seconds of the rest.
    """

    prototypes: Tensor
    energies: NDArray[np.float64]
    seeding: float
    racing: float


def races(model: Parameters) -> bool:
    """Whether several starts are raced: along a path of weights they would all have to go to its end first."""
    return model.n_init > 1 and isinstance(model.init, str) and not weight_path(model)


def weight_path(model: Parameters) -> tuple[float, ...]:
    """The shares of the weight that are gone through before all of it.

    Raises:
        InputError: they do not rise from 0 to below 1.
    """
    try:
        path = tuple(float(share) for share in (model.weight_path if model.weight_path is not None else ()))
    except (TypeError, ValueError):
        path = (math.nan,)
    if not all(0 <= low < high for low, high in pairwise((*path, 1.0))):
        raise InputError(f"SLK: weight_path must be rising shares of weight in [0, 1), not {model.weight_path!r}")
    return path


def neighbours_of(model: Parameters, given: Any, rows: Rows) -> Neighbours:
    """W as given or built, and sigma^2 as `bandwidth` says."""
    watch = Stopwatch()
    graph, variance = graph_and_variance(given, rows, model.n_neighbors, model.symmetry, model.bandwidth)
    return Neighbours(graph, variance, watch.lap())


def rule_of(model: Parameters, rows: Rows, variance: float) -> Rule:
    """How prototypes follow from the assignments of these rows, by `prototypes`."""
    if model.prototypes == "mean":
        return Means(rows)
    if model.prototypes == "medoid":
        return Medoids(rows)
    if model.prototypes == "byproduct":
        return ByProductModes(rows, variance)
    return Modes(rows, variance)


def temperatures_of(model: Parameters, degree: float) -> tuple[float, ...]:
    """Weights of the entropy in R that are tried in turn, until assignments are not `blurred`.

    By default 1.5 times and once the one above which the graph cannot tell clusters apart: at uniform S the Jacobian of
    the update softmax(c W S / T), c = 2 weight, has the largest eigenvalue c d / (K T), d the mean degree, so that
    points whose costs differ by less than T stay in all clusters alike where c d < K T (the mean field of the Potts
    model becomes disordered). Costs that differ more, and neighbours of neighbours, keep order somewhat above it.
    """
    if model.temperature != "auto":
        return (float(model.temperature),)
    bound = 2 * model.weight * degree / model.n_clusters
    return tuple(dict.fromkeys(min(1.0, max(COLDEST, factor * bound)) for factor in (1.5, 1.0)))


def blurred(entropy: float, clusters: int) -> bool:
    """Whether assignments of this mean entropy, in nats, tell clusters apart too little."""
    return entropy > _BLURRED * math.log(clusters)


def course_of(model: Parameters, temperature: float, *, warm: bool) -> Course:
    """How trials are run; `warm` sweeps begin where those before ended."""
    return Course(
        Sweeps("monotone", model.max_sweeps, model.sweep_tol, warm=warm),
        model.mode_weights if model.prototypes in ("mean", "mean_shift") else "soft",
        "reseed" if model.on_empty == "reseed" else "keep",
        model.max_iter,
        model.tol,
        temperature,
    )


def run(
    model: Parameters,
    rows: Rows,
    near: Neighbours,
    seeds: Tensor,
    weights: Sequence[float],
    clamp: Clamp | None = None,
    *,
    temperature: float,
    seeding: float = 0.0,
    raced: bool = False,
) -> Found:
    """A trial for each of the seeds (T, K, D), which took `seeding` seconds, with its weight, all together; seeds
    that won a race are prototypes already, and nothing is left to be explored by sweeps that begin anew."""
    watch = Stopwatch()
    graph, variance, _ = near
    rule = rule_of(model, rows, variance)
    course = course_of(model, temperature, warm=model.warm_start or raced)
    slopes = 2 * seeds.new_tensor(weights)
    if model.prototypes in ("byproduct", "medoid"):
        shift = Modes(rows, variance, steps=1)
        brief = replace(course, max_iterations=WARM_UP, empty="keep")
        about = seeds if raced else prototypes_about(seeds, rows, shift, clamp)
        first = run_trials(shift, graph, about, slopes, clamp=clamp, course=brief)
        start = prototypes_of(first.labels, rule, rows.at(rows.nearest(first.prototypes)))
    elif raced:
        start = seeds
    else:
        start = prototypes_about(seeds, rows, rule, clamp)
    found = run_trials(rule, graph, start, slopes, path=weight_path(model), clamp=clamp, course=course)
    compared = ranked(found, rule, graph, weights, model.select)
    return Found(found, compared, rule, near, Seconds(near.seconds, seeding, watch.lap()), temperature)


def race_starts(
    model: Parameters, rows: Rows, near: Neighbours, clamp: Clamp | None, *, temperature: float, whole: bool
) -> Winner:
    """The best of the starts. On a sample, unless labels are known or the graph may tell what the rows do not
    (`whole`)."""
    watch = Stopwatch()
    some, about = rows, near
    chosen = None
    if clamp is None and not whole and not isinstance(rows, SparseRows):
        chosen = racing_rows(model, len(rows.values))
    if chosen is not None:
        some = Rows(rows.values[chosen.to(rows.values.device)], rows.origin)
    try:
        seeds = first_seeds(model.init, some, model.n_clusters, model.n_init, model.random_state, clamp)
    except InputError:
        if chosen is None:
            raise
        some, chosen = rows, None  # that has too few distinct rows
        seeds = first_seeds(model.init, some, model.n_clusters, model.n_init, model.random_state, clamp)
    seeding = watch.lap()
    if chosen is not None:
        about = neighbours_of(model, None, some)
    best, energies = race_from(model, some, about, seeds, temperature, clamp)
    return Winner(best, energies * (len(rows.values) / len(some.values)), seeding, watch.lap())


def racing_rows(model: Parameters, points: int) -> Tensor | None:
    """Of so many points those on which starts race; None where all of them do."""
    seed = int(check_random_state(model.random_state).randint(np.iinfo(np.int32).max))
    return sample(points, model.n_clusters, stream(seed, "race"))


def race_from(
    model: Parameters, some: Rows, about: Neighbours, seeds: Tensor, temperature: float, clamp: Clamp | None = None
) -> tuple[Tensor, NDArray[np.float64]]:
    """(1, K, D) prototypes of the best of the starts from these seeds, and E of all of them."""
    rule = Means(some) if model.prototypes == "mean" else Modes(some, about.variance, steps=1)
    weight = float(model.weight)
    course = course_of(model, temperature, warm=False)
    best, energies = race(rule, about.graph, seeds, 2 * weight, weight, model.select, clamp=clamp, course=course)
    return best, energies.cpu().numpy()


def tells_more(graph: Any) -> bool:
    """Whether a graph given to `fit` may be another than that of nearest rows."""
    return graph is not None and not isinstance(graph, (NeighbourGraph, SparseGraph))
