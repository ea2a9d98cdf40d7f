"""K-means++ (Arthur and Vassilvitskii 2007), for many trials of one data set at once."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from clustering.centres import Rows
from clustering.errors import InputError


def plus_plus(rows: Rows, count: int, streams: Sequence[np.random.Generator], given: Tensor | None = None) -> Tensor:
    """Seeds drawn one after the other, a point with probability proportional to its squared distance from those drawn.

    Each is the best of 2 + log K draws, as in scikit-learn. What a trial draws depends on its own stream alone. The
    points are read once a seed for all trials. Holds T N (2 + log K) numbers.

    Args:
        rows: N points.
        count: K, seeds of each trial, those `given` not counted.
        streams: T generators, one for each trial.
        given: (g, D) centres that are there already, for every trial.

    Returns:
        (T, K) indices of different points.

    Raises:
        InputError: fewer distinct points than seeds.
    """
    trials, points = len(streams), len(rows.values)
    draws = 2 + int(math.log(max(1, count)))
    # Distances below this are of duplicates, up to rounding.
    same = 64 * torch.finfo(rows.values.dtype).eps * rows.squared_norms
    nearest = rows.squared_norms.new_full((trials, points), torch.inf)
    if given is not None and len(given):
        nearest = rows.squared_distances(given).amin(dim=0).expand(trials, -1)
    seeds: list[Tensor] = []
    for _ in range(count):
        nearest = torch.where(nearest <= same, 0.0, nearest)
        uniform = np.stack([generator.random(draws) for generator in streams])
        if torch.isinf(nearest).all():
            candidates = (torch.from_numpy(uniform[:, :1]) * points).long().to(nearest.device)
        else:
            sums = nearest.cumsum(dim=1, dtype=torch.float64)
            if (sums[:, -1] == 0).any():
                distinct = len(seeds) + (0 if given is None else len(given))
                raise InputError(
                    f"{distinct} distinct points for {distinct - len(seeds) + count} clusters: "
                    f"set n_clusters to at most {distinct}"
                )
            at = torch.from_numpy(uniform).to(nearest.device) * sums[:, -1:]
            candidates = torch.searchsorted(sums, at, right=True).clamp_max(points - 1)
        new = rows.squared_distances(rows.at(candidates))
        new = torch.minimum(new, nearest[:, None], out=new)
        best = new.sum(dim=2, dtype=torch.float64).argmin(dim=1)
        trial = torch.arange(trials, device=best.device)
        seeds.append(candidates[trial, best])
        nearest = new[trial, best]
    return torch.stack(seeds, dim=1) if seeds else torch.empty(trials, 0, dtype=torch.int64)
