"""`clustering.GaussianKModes` on the rows of a `dask.array`."""

from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from clustering.blocks.alternation import BlockTrial, prototypes_about_blocks, run_trial
from clustering.blocks.graph import BlockGraph
from clustering.blocks.prototypes import BlockRule
from clustering.blocks.results import begin_fit, dask_array
from clustering.blocks.rows import BlockRows
from clustering.blocks.seeding import plus_plus_blocks
from clustering.estimator_input import Device
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.dense_graph import Symmetry
from clustering.numbering import first_points, order_of
from clustering.optimiser.alternation import Outcome, Sweeps
from clustering.optimiser.centres import Modes, Rows
from clustering.optimiser.trials import Course
from clustering.seeding import first_seeds
from clustering.starts import best_start, warn_of_empty


class Model(Protocol):
    """`clustering.GaussianKModes`: its parameters, and what a fit adds."""

    n_clusters: int
    bandwidth: Literal["estimate", "published"] | float
    n_neighbors: int
    symmetry: Symmetry
    init: str | ArrayLike
    n_init: int
    normalize: Literal["l2"] | None
    max_iter: int
    tol: float
    device: Device
    random_state: Any

    labels_: Any
    cluster_centers_: NDArray[Any]
    objective_: float
    start_objectives_: NDArray[Any]
    n_iter_: int
    n_reseeded_: int
    converged_: bool
    n_empty_: int
    bandwidth_: float
    graph_: Any
    seconds_: Seconds


def fit_blocks(model: Model, X: Any, graph: Any, path: tuple[float, ...], temperature: float) -> None:
    """Fit the model, whose parameters have been checked, to the rows of X on the cluster of the present client.

    `labels_` becomes a dask array, whose blocks stay on the workers.

    Args:
        model: to fit.
        X: a dask array.
        graph: as in `GaussianKModes.fit`.
        path: factors of sigma that precede 1.
        temperature: temperature at which assignments are hard.

    Raises:
        InputError: as in `GaussianKModes.fit`, or a GPU is requested, or there is no cluster.
    """
    rows = begin_fit(model, X)
    watch = Stopwatch()
    near = BlockGraph.none(rows)
    if graph is not None or isinstance(model.bandwidth, str):
        near, variance = BlockGraph.with_variance(graph, rows, model.n_neighbors, model.symmetry, model.bandwidth)
        model.graph_ = graph
    else:
        variance = float(model.bandwidth) ** 2
    model.bandwidth_ = variance**0.5
    graph_seconds = watch.lap()
    draw = partial(plus_plus_blocks, rows, model.n_clusters)
    seeds = first_seeds(model.init, rows.template, model.n_clusters, model.n_init, model.random_state, draw=draw)
    seeding_seconds = watch.lap()
    starts = [_run(model, rows, near, variance, (*path, 1.0), seed[None], temperature) for seed in seeds]
    results = [rows.cluster.ask(_ended, rows.parts, last.prototypes, variance) for last, *_ in starts]
    objectives, sizes = (
        torch.stack([torch.stack([block[i] for block in each]).sum(dim=0) for each in results]) for i in (0, 1)
    )
    best = best_start(objectives, sizes, rows.dtype)
    last, iterations, reseeded = starts[best]
    order = order_of(model, rows.first_points([block[2] for block in results[best]]))
    modes = last.prototypes[0][order]
    labels = rows.cluster.begin(_nearest, rows.parts, modes[None])
    model.labels_ = dask_array(labels, [(size,) for size in np.diff(rows.offsets).tolist()], torch.int64)
    model.cluster_centers_ = (modes if rows.origin is None else modes + rows.origin).numpy()
    model.objective_, model.start_objectives_ = float(objectives[best]), objectives.numpy()
    model.n_iter_, model.n_reseeded_ = iterations, reseeded
    model.converged_ = last.outcome == Outcome.CONVERGED
    model.n_empty_ = int((sizes[best] == 0).sum())
    warn_of_empty(model.n_empty_, model.n_clusters, stacklevel=4)
    model.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())


def _run(
    model: Model,
    rows: BlockRows,
    graph: BlockGraph,
    variance: float,
    factors: tuple[float, ...],
    seeds: Tensor,
    temperature: float,
) -> tuple[BlockTrial, int, int]:
    """Result of a start, the number of updates of its modes, and the number of reseeded clusters."""
    course = Course(Sweeps(), "hard", "reseed", model.max_iter, model.tol, temperature)
    rules = [BlockRule(rows, partial(Modes, variance=variance * factor**2)) for factor in factors]
    modes, iterations, reseeded = prototypes_about_blocks(seeds, rules[0]), 0, 0
    for rule in rules:
        alternation = run_trial(rule, graph, modes, 0.0, course=course)
        modes = alternation.prototypes
        iterations, reseeded = iterations + alternation.iterations, reseeded + alternation.reseeded
    return alternation, iterations, reseeded


def _ended(rows: Rows, modes: Tensor, variance: float) -> tuple[Tensor, Tensor, NDArray[np.int64]]:
    """Objective of this block, (K,) cluster sizes, both float64, and (K,) first points of the clusters."""
    nearest = rows.squared_distances(modes).min(dim=1)
    densities = nearest.values.mul_(-0.5 / variance).exp_()
    sizes = torch.bincount(nearest.indices[0], minlength=modes.shape[1])
    first = first_points(nearest.indices[0].numpy(), modes.shape[1])
    return -densities.sum(dtype=torch.float64), sizes.double(), first


def _nearest(rows: Rows, modes: Tensor) -> NDArray[np.int64]:
    return rows.squared_distances(modes).min(dim=1).indices[0].numpy()
