"""Input and fitted attributes of `FairKMeans` and `FairKMedian` for a `dask.array`."""

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clustering.blocks.results import begin_fit
from clustering.blocks.rows import BlockRows
from clustering.blocks.seeding import plus_plus_blocks
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate_signature
from clustering.seeding import TooFewDistinct, first_seeds
from fairness.blocks.objectives import kmeans_objective, medoids
from fairness.blocks.points import BlockPoints
from fairness.fit_input import fit_groups
from fairness.groups import Groups
from fairness.metrics import Fairness
from fairness.optimiser.points import Points
from fairness.optimiser.starts import sample
from fairness.optimiser.store import Labels
from fairness.reporting import keep_fairness


def rows_and_groups(model: Any, X: Any, sensitive_features: Any) -> tuple[BlockRows, Groups]:
    """Check the parameters and the data of a fit.

    Args:
        model: the estimator.
        X: a dask array.
        sensitive_features: see `fairness.groups.groups_of`, or a dask array of N values, which is loaded into this
            process.

    Raises:
        InputError: the parameters, rows or groups are invalid, or an option is not supported for blocks.
    """
    validate_signature(model)
    for is_set, feature in (
        (model.fairness_weight == "auto", "fairness_weight='auto'"),
        (model.rounding == "flow", "rounding='flow'"),
    ):
        if is_set:
            raise InputError(f"{type(model).__name__}: {feature} is not supported for a dask.array")
    rows = begin_fit(model, X)
    if hasattr(sensitive_features, "dask"):
        sensitive_features = sensitive_features.compute()
    return rows, fit_groups(model, rows.points, sensitive_features)


def points_and_seeds(model: Any, rows: BlockRows, groups: Groups) -> tuple[Tensor, BlockPoints, Points | None, Tensor]:
    """Origin (D,) of the points, the points, a local sample if there are many, and initial prototypes (T, K, D).

    The points, the sample and the prototypes are relative to the origin.
    """
    K, C = int(model.n_clusters), len(groups.membership)
    origin = (sum(rows.cluster.ask(_sums, rows.parts)) / rows.points).to(rows.dtype)
    points = BlockPoints(rows, origin, groups.cells, C, K)
    chosen = sample(groups.cells, K, model.random_state)
    if chosen is not None:
        values, cells = rows.values_at(torch.from_numpy(chosen)), torch.from_numpy(groups.cells[chosen])
        with suppress(TooFewDistinct):  # the full data may have enough distinct points
            return origin, points, Points(values - origin, cells, C, K), model._seeds(values) - origin
    draw = partial(plus_plus_blocks, rows, K)
    seeds = first_seeds(model.init, rows.template, K, model.n_init, model.random_state, draw=draw)
    return origin, points, None, seeds - origin if rows.origin is None else seeds + rows.origin - origin


def _sums(rows: Any) -> Tensor:
    sums: Tensor = rows.values.sum(dim=0, dtype=torch.float64)
    return sums


def keep_blocks(model: Any, points: Any, labels: Labels, groups: Groups) -> Fairness:
    """Set the fitted attributes that depend on the labels, which become a dask array, and `objective_`."""
    counts = (groups.membership.T @ points.counts(labels).numpy()).round().astype(np.int64)
    fair = keep_fairness(model, points.as_dask_array(labels), groups, counts)
    model._score(kmeans_objective(points, labels) if model.kind == "kmeans" else medoids(points, labels))
    return fair
