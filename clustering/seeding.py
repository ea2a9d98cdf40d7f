"""Initial prototypes by k-means++ (Arthur and Vassilvitskii 2007), for many trials on one data set together."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from clustering.estimator_input import as_array
from clustering.foundation.errors import InputError
from clustering.foundation.streams import seed_of, stream
from clustering.optimiser.alternation import Clamp
from clustering.optimiser.prototypes import Rule
from clustering.optimiser.rows import Rows
from clustering.starts import first_lowest, indicators


def plus_plus(
    rows: Rows,
    count: int,
    streams: Sequence[np.random.Generator],
    existing: Tensor | None = None,
    *,
    mass: Tensor | None = None,
    uniform: bool = False,
) -> Tensor:
    """Draw seeds one by one, each with probability proportional to the squared distance from the previous ones.

    Each seed is the best of 2 + log K candidates, as in scikit-learn; the first wins if they are equal up to rounding.
    The draws of a trial depend only on its own stream, see `Rows.squared_distances_to_draw_by`. The points are read
    once per seed for all trials. Memory: T N (2 + log K) numbers.

    Args:
        rows: N points.
        count: number of seeds K per trial, not counting `existing` ones.
        streams: T generators, one for each trial.
        existing: (g, D) existing centres, the same for every trial.
        mass: (N,) >= 0, how often each point counts; None: once.
        uniform: whether all points apart from previous seeds are equally probable, with one candidate per seed.

    Returns:
        (T, K) indices of distinct points.

    Raises:
        InputError: there are fewer distinct points than seeds.
    """
    trials, points = len(streams), len(rows.values)
    draws = 1 if uniform else 2 + int(math.log(max(1, count)))
    weights = None if mass is None else mass.to(rows.squared_norms)

    def weighted(values: Tensor) -> Tensor:
        return values if weights is None else values * weights

    nearest = rows.squared_norms.new_full((trials, points), torch.inf)
    if existing is not None and len(existing):
        nearest = _nearer(rows, existing, nearest[:1]).amin(dim=0).expand(trials, -1)
    seeds: list[Tensor] = []
    for _ in range(count):
        chance = np.stack([generator.random(draws) for generator in streams])
        if torch.isinf(nearest).all() and weights is None:
            candidates = (torch.from_numpy(chance[:, :1]) * points).long().to(nearest.device)
        else:
            flat = uniform or bool(torch.isinf(nearest).all())
            sums = weighted((nearest > 0) if flat else nearest).cumsum(dim=1, dtype=torch.float64)
            if (sums[:, -1] == 0).any():
                distinct = len(seeds) + (0 if existing is None else len(existing))
                raise TooFewDistinct(distinct, distinct - len(seeds) + count)
            thresholds = torch.from_numpy(chance).to(nearest.device) * sums[:, -1:]
            candidates = torch.searchsorted(sums, thresholds, right=True).clamp_max(points - 1)
        new = _nearer(rows, rows.at(candidates), nearest[:, None])
        best = first_lowest(weighted(new).sum(dim=2, dtype=torch.float64))
        trial = torch.arange(trials, device=best.device)
        seeds.append(candidates[trial, best])
        nearest = new[trial, best]
    return torch.stack(seeds, dim=1) if seeds else torch.empty(trials, 0, dtype=torch.int64)


def _nearer(rows: Rows, seeds: Tensor, nearest: Tensor) -> Tensor:
    """(…, N) squared distances of the rows from the nearest seed: of earlier ones, `nearest` (…, N), and one more
    (…, D). They are 0 if they are within rounding of equal rows."""
    squared = rows.squared_distances_to_draw_by(seeds)
    squared = torch.minimum(squared, nearest, out=squared)
    tolerance = 64 * torch.finfo(rows.values.dtype).eps * rows.squared_norms
    return squared.masked_fill_(squared <= tolerance, 0.0)


class TooFewDistinct(InputError):
    """There are fewer distinct points than clusters."""

    def __init__(self, distinct: int, clusters: int) -> None:
        super().__init__(f"{distinct} distinct points for {clusters} clusters: set n_clusters to at most {distinct}")


def first_seeds(
    init: str | ArrayLike,
    rows: Rows,
    clusters: int,
    starts: int | Literal["auto"],
    random_state: Any,
    clamp: Clamp | None = None,
    *,
    mass: Tensor | None = None,
    auto: int = 8,
) -> Tensor:
    """(T, K, D) seeds of the starts of an estimator, the same for every method with the same random_state.

    Args:
        init: "k-means++", "random" (distinct points), or (K, D) initial prototypes of a single start.
        rows: N points, at least as many as clusters.
        clusters: K.
        starts: T, or "auto".
        random_state: as in scikit-learn.
        clamp: (mask (N,), labels (N,)) of known points.
        mass: (N,) how often each point counts, see `plus_plus`.
        auto: the number for which "auto" stands.

    Raises:
        InputError: `init` is invalid, or there are fewer distinct points than clusters.
    """
    if isinstance(init, str):
        if init not in ("k-means++", "random"):
            raise InputError(f"init must be k-means++, random or an array, not {init!r}")
        seed = seed_of(random_state)
        streams = [stream(seed, init, trial) for trial in range(auto if starts == "auto" else starts)]
        return _seeds_beside(rows, clusters, streams, clamp, mass=mass, uniform=init == "random")
    shape = (clusters, rows.values.shape[1])
    try:
        array = np.array(as_array(init), dtype=np.float64)  # a copy, because torch warns of read-only arrays
    except (TypeError, ValueError):
        raise InputError(f"init must be k-means++, random or finite numbers {shape}") from None
    if array.shape != shape or not np.isfinite(array).all():
        raise InputError(f"init must be k-means++, random or finite {shape}, not {array.shape}")
    seeds = torch.from_numpy(array).to(rows.values.device, rows.values.dtype)[None]
    return rows.relative(seeds)


def _seeds_beside(
    rows: Rows, clusters: int, streams: Sequence[np.random.Generator], clamp: Clamp | None, **options: Any
) -> Tensor:
    """(T, K, D) means of the clusters with known points, and seeds for the others, drawn by `plus_plus`."""
    known = torch.zeros(clusters, dtype=torch.bool, device=rows.values.device)
    means = rows.values[:0]
    if clamp is not None and clamp[0].any():
        members = torch.nn.functional.one_hot(clamp[1], clusters).T * clamp[0]
        known = members.any(dim=1)
        means = rows.means(members[known].to(rows.values.dtype))
    drawn = rows.at(plus_plus(rows, int((~known).sum()), streams, means, **options))
    seeds = rows.values.new_empty(len(streams), clusters, rows.values.shape[1])
    seeds[:, known], seeds[:, ~known] = means, drawn
    return seeds


def prototypes_about(seeds: Tensor, rows: Rows, rule: Rule, clamp: Clamp | None = None) -> Tensor:
    """(T, K, D) prototypes of the clusters of points nearest to each of the `seeds` (T, K, D).

    Known points stay in their clusters. The public code of Ziko et al. 2018 starts from these prototypes, not from the
    seeds.
    """
    labels = rows.squared_distances(seeds).min(dim=1).indices
    if clamp is not None:
        labels = torch.where(clamp[0], clamp[1], labels)
    return prototypes_of(labels, rule, seeds)


def prototypes_of(labels: Tensor, rule: Rule, near: Tensor) -> Tensor:
    """(T, K, D) prototypes of `labels` (T, N); an empty cluster takes the one from `near` (T, K, D)."""
    weights = indicators(labels, near.shape[1], near.dtype)
    empty = weights.amax(dim=2) == 0
    start = rule.update(near, torch.where(empty[:, :, None], 1.0, weights), None)
    return torch.where(empty[:, :, None], near, start)
