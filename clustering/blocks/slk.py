"""`clustering.SLK` on the rows of a `dask.array`."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from clustering.blocks.alternation import BlockTrial, prototypes_about_blocks, prototypes_of_blocks, run_trial
from clustering.blocks.graph import BlockGraph, HaloGraph
from clustering.blocks.prototypes import BlockRule
from clustering.blocks.results import begin_fit, dask_array
from clustering.blocks.rows import BlockRows
from clustering.blocks.seeding import plus_plus_blocks
from clustering.foundation.errors import InputError
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.numbering import first_points, order_of
from clustering.optimiser.alternation import Outcome
from clustering.optimiser.centres import Modes, Rows
from clustering.optimiser.trials import cut
from clustering.seeding import first_seeds
from clustering.slk.fit import (
    WARM_UP,
    Parameters,
    blurred,
    course_of,
    neighbours_of,
    race_from,
    races,
    racing_rows,
    rule_of,
    temperatures_of,
    weight_path,
)
from clustering.starts import compared, entropy_of


class Model(Parameters, Protocol):
    """`clustering.SLK`: its parameters and fitted attributes."""

    labels_: Any
    assignments_: Any
    cluster_centers_: NDArray[Any]
    mode_indices_: NDArray[Any]
    criterion_: float
    objective_: float
    relaxed_objective_: float
    objective_trace_: NDArray[Any]
    mode_movements_: NDArray[Any]
    n_iter_: int
    n_reseeded_: int
    n_empty_: int
    start_objectives_: NDArray[Any]
    converged_: bool
    seconds_: Seconds
    bandwidth_: float
    temperature_: float
    graph_: Any
    _fitted: Rows

    def _warn(self, entropy: float) -> None: ...


def fit_blocks(model: Model, X: Any, partial_labels: Any, graph: Any) -> None:
    """Fit the model, whose parameters have been checked, to the rows of X on the cluster of the current client.

    Several starts race in this process, on the same sample of rows as for arrays in memory, or on all rows if these are
    few; the best start continues with all rows on the workers. With a weight path, or if the sample has too few
    distinct rows, all starts run on all rows one after another.

    `labels_` and `assignments_` become dask arrays, whose blocks stay on the workers; `graph_` is the given graph, or
    None.

    Raises:
        InputError: as in `SLK.fit`, or an option is not supported for blocks.
    """
    for is_set, feature in (
        (partial_labels is not None, "partial_labels"),
        (model.prototypes == "medoid", "prototypes='medoid', which needs pairs of points,"),
    ):
        if is_set:
            raise InputError(f"SLK: {feature} is not supported for a dask.array; pass the rows as one array in memory")
    rows = begin_fit(model, X)
    watch = Stopwatch()
    near, variance = BlockGraph.with_variance(graph, rows, model.n_neighbors, model.symmetry, model.bandwidth)
    seconds_of_graph = watch.lap()
    model.graph_, model.bandwidth_ = graph, variance**0.5
    rule = BlockRule(rows, partial(rule_of, clone(model), variance=variance))
    seeding = 0.0
    for temperature in temperatures_of(model, near.mass() / rows.points):
        stopwatch = Stopwatch()
        raced = _race_starts(model, rows, graph, temperature) if races(model) else None
        if raced is not None:
            seeds = raced[0]
        else:
            draw = partial(plus_plus_blocks, rows, model.n_clusters)
            settings = model.n_clusters, model.n_init, model.random_state
            seeds = first_seeds(model.init, rows.template, *settings, draw=draw)
        seeding += stopwatch.lap()
        starts = [_run(model, rule, near, variance, seed[None], temperature, raced=raced is not None) for seed in seeds]
        outcomes = torch.tensor([start.trial.outcome for start in starts])
        objectives = torch.cat([start.trial.objective for start in starts])
        sizes = torch.stack([start.sizes for start in starts])
        ranking = compared(torch.stack([start.energy for start in starts]), objectives, sizes, outcomes, model.select)
        best = int(ranking.order(rows.dtype)[0])
        if not blurred(starts[best].entropy, model.n_clusters):
            break
    model.temperature_, model.criterion_ = temperature, float(ranking.criteria[best])
    model.start_objectives_ = ranking.energies.numpy() if raced is None else raced[1]
    _keep(model, rule, starts[best])
    model.seconds_ = Seconds(seconds_of_graph, seeding, watch.lap() - seeding)


class _Start(NamedTuple):
    """Result of a start: its E, (K,) cluster sizes, float64, (K,) first points of clusters in each block, and the mean
    entropy of its assignments."""

    trial: BlockTrial
    energy: Tensor
    sizes: Tensor
    first: list[NDArray[np.int64]]
    entropy: float


def _race_starts(
    model: Parameters, rows: BlockRows, graph: Any, temperature: float
) -> tuple[Tensor, NDArray[np.float64]] | None:
    """(1, K, D) prototypes of the best start, and E of each start, scaled from the sample to all rows; None if the
    sample has too few distinct rows."""
    chosen = racing_rows(model, rows.points)
    everything = chosen is None
    chosen = torch.arange(rows.points) if chosen is None else chosen
    sample = Rows(rows.values_at(chosen), rows.origin)
    try:
        seeds = first_seeds(model.init, sample, model.n_clusters, model.n_init, model.random_state)
    except InputError:
        if everything:
            raise
        return None
    neighbours = neighbours_of(model, graph if everything else None, sample)
    best, energies = race_from(model, sample, neighbours, seeds, temperature)
    return best, energies * (rows.points / len(chosen))


def _run(
    model: Parameters,
    rule: BlockRule,
    graph: BlockGraph,
    variance: float,
    seeds: Tensor,
    temperature: float,
    *,
    raced: bool,
) -> _Start:
    """Run one start; with `raced`, the seeds are prototypes and are used directly."""
    slope = 2 * float(model.weight)
    course = course_of(model, temperature, warm=model.warm_start or raced)
    if model.prototypes == "byproduct":
        shift = BlockRule(rule.rows, partial(Modes, variance=variance, steps=1))
        brief = replace(course, max_iterations=WARM_UP, empty="keep")
        prototypes = seeds if raced else prototypes_about_blocks(seeds, shift)
        first = run_trial(shift, graph, prototypes, slope, course=brief)
        start = prototypes_of_blocks(first, rule)
    elif raced:
        start = seeds
    else:
        start = prototypes_about_blocks(seeds, rule)
    trial = run_trial(rule, graph, start, slope, path=weight_path(model), course=course)
    halos = graph.halos(_labels_of, trial.assignments)
    results = rule.rows.cluster.ask(
        _energy, rule.rows.parts, rule.of, trial.prototypes, graph.parts, trial.assignments, halos, float(model.weight)
    )
    energies, sizes, firsts, entropies = zip(*results, strict=True)
    return _Start(
        trial,
        torch.stack(energies).sum(dim=0)[0],
        torch.stack(sizes).sum(dim=0).double(),
        list(firsts),
        sum(entropies) / rule.rows.points,
    )


def _keep(model: Model, rule: BlockRule, start: _Start) -> None:
    trial, rows = start.trial, rule.rows
    model._fitted = rows.template
    model.objective_, model.relaxed_objective_ = float(start.energy), float(trial.objective)
    model.objective_trace_, movements = trial.trace[:, 0].numpy(), trial.movements[:, 0]
    model.n_iter_, model.n_reseeded_ = trial.iterations, trial.reseeded
    model.converged_ = trial.outcome == Outcome.CONVERGED
    kept = torch.from_numpy(order_of(model, rows.first_points(start.first)))
    nonempty = (start.sizes > 0)[kept]
    model.n_empty_ = int((~nonempty).sum())
    kept = kept[nonempty] if model.on_empty == "drop" else kept
    centres = trial.prototypes[0, kept]
    model.mode_movements_ = movements[:, kept].numpy()
    sizes = np.diff(rows.offsets).tolist()
    assignments = rows.cluster.begin(_assignments_of, trial.assignments, kept)
    labels = rows.cluster.begin(_labels, assignments)
    model.assignments_ = dask_array(assignments, [(size, len(centres)) for size in sizes], rows.dtype)
    model.labels_ = dask_array(labels, [(size,) for size in sizes], torch.int64)
    exact = centres if rows.origin is None else centres + rows.origin
    if model.prototypes == "byproduct":
        indices = rows.places(centres)
        model.mode_indices_ = indices.numpy()
    model.cluster_centers_ = exact.numpy()
    model._warn(start.entropy)


def _labels_of(assignments: Tensor, indices: Tensor) -> Tensor:
    return assignments[0][:, indices].max(dim=0).indices


def _energy(
    rows: Rows,
    rule_of: Any,
    centres: Tensor,
    graph: HaloGraph,
    assignments: Tensor,
    boundaries: list[Tensor],
    weight: float,
) -> tuple[Tensor, Tensor, NDArray[np.int64], float]:
    """The share of E of this block, see `clustering.optimiser.trials.discrete_energy`; the sizes (K,) and first points
    (K,) of the clusters in this block; and the sum of the entropies of the assignments."""
    labels, clusters = assignments.max(dim=1).indices, assignments.shape[1]
    unary: Tensor = rule_of(rows).cost(centres).gather(1, labels[:, None]).sum(dim=(1, 2), dtype=torch.float64)
    all_labels = torch.cat([labels, graph.halo(boundaries)[None]], dim=1) if boundaries else labels
    sizes, first = torch.bincount(labels[0], minlength=clusters), first_points(labels[0].numpy(), clusters)
    return unary + weight * cut(all_labels, graph.graph), sizes, first, entropy_of(assignments)


def _assignments_of(assignments: Tensor, kept: Tensor) -> NDArray[Any]:
    columns = assignments[0].T[:, kept].contiguous()
    is_complete = len(kept) == assignments.shape[1]
    return (columns if is_complete else columns / columns.sum(dim=1, keepdim=True)).numpy()


def _labels(assignments: NDArray[Any]) -> NDArray[np.int64]:
    labels: NDArray[np.int64] = assignments.argmax(axis=1)
    return labels
