"""Initial prototypes of rows in blocks: k-means++ with the draws of `clustering.seeding`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clustering.blocks.cluster import Kept
from clustering.blocks.rows import BlockRows
from clustering.optimiser.centres import Rows
from clustering.seeding import candidates_per_seed, nearer, too_few
from clustering.starts import first_lowest


def plus_plus_blocks(rows: BlockRows, count: int, streams: Sequence[np.random.Generator]) -> Tensor:
    """(T, K, D) what `clustering.seeding.plus_plus` draws, all trials at once, in three rounds of tasks a seed.

    Raises:
        InputError: fewer distinct points than seeds.
    """
    cluster, trials = rows.cluster, len(streams)
    draws = candidates_per_seed(count)
    near: list[Any] = [None] * cluster.count
    totals = torch.zeros(cluster.count, trials, dtype=torch.float64)
    seeds: list[Tensor] = []
    for _ in range(count):
        uniform = torch.from_numpy(np.stack([generator.random(draws) for generator in streams]))
        if not seeds:
            candidates = rows.at((uniform[:, :1] * rows.points).long())
        else:
            sums = totals.cumsum(dim=0)
            if (sums[-1] == 0).any():
                raise too_few(len(seeds), count)
            thresholds = uniform * sums[-1][:, None]
            owners = torch.searchsorted(sums.T.contiguous(), thresholds, right=True).clamp_max(cluster.count - 1)
            local = thresholds - torch.cat([torch.zeros(1, trials), sums])[:-1].T.gather(1, owners)
            trial = torch.arange(trials)[:, None].expand_as(owners)
            candidates = rows.pick(owners, _drawn, near, trial, local)
        new, measured = cluster.run(_measured, rows.parts, near, candidates)
        best = first_lowest(torch.stack(measured).sum(dim=0))
        near, sums_of_blocks = cluster.run(_chosen, rows.parts, new, best)
        totals = torch.stack(sums_of_blocks)
        seeds.append(candidates[torch.arange(trials), best])
    return torch.stack(seeds, dim=1)


class _Near(NamedTuple):
    """A block, and (T, n) squared distances of its points to their nearest seeds, 0 of duplicates of one."""

    rows: Rows
    squared: Tensor


def _drawn(near: _Near, trials: Tensor, thresholds: Tensor) -> Tensor:
    """(c, D) points drawn in trials (c,), where `at` (c,) is the sum of distances that precedes each of them."""
    sums = near.squared.cumsum(dim=1, dtype=torch.float64)[trials]
    return near.rows.at(torch.searchsorted(sums, thresholds[:, None], right=True)[:, 0].clamp_max(sums.shape[1] - 1))


def _measured(rows: Rows, near: _Near | None, candidates: Tensor) -> Kept:
    """(T, c, n) squared distances to the nearest seed if each of the candidates (T, c, D) were one."""
    new = nearer(rows, candidates, None if near is None else near.squared[:, None])
    return Kept(new, new.sum(dim=2, dtype=torch.float64))


def _chosen(rows: Rows, measured: Tensor, best: Tensor) -> Kept:
    squared = measured[torch.arange(len(best)), best]
    return Kept(_Near(rows, squared), squared.sum(dim=1, dtype=torch.float64))
