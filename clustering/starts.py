"""Ranking of the starts of a fit and selection of the best."""

import math
import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

Select = Literal["information", "energy"]
"""Criterion: E, or R - 2 N H."""

NEARLY = 0.04
"""Difference of E per point. A start of SLK that merges two clusters and halves another is worse by more than this if
clusters are well separated (blobs of uneven sizes: 0.1 to 0.2), and by less if they overlap (USPS, MNIST)."""


def rounding(dtype: torch.dtype) -> float:
    """Relative difference below which two objectives count as equal in this precision."""
    return 1e-9 if dtype == torch.float64 else 1e-5


def first_lowest(objectives: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    """(…) index of the first of the lowest objectives (…, T) >= 0, up to rounding in the precision of their
    computation."""
    values = torch.as_tensor(objectives, dtype=torch.float64)
    lowest = values.amin(dim=-1, keepdim=True)
    return (values <= lowest * (1 + rounding(dtype))).int().argmax(dim=-1)


def _ranks(values: Tensor, allowance: float) -> Tensor:
    """(T,) ranks of values (T,), where a value equals the lowest of its rank up to rounding."""
    ranks = torch.zeros_like(values, dtype=torch.int64)
    lowest, rank = -torch.inf, -1
    for i in values.argsort().tolist():
        if not float(values[i]) <= lowest + allowance:
            lowest, rank = float(values[i]), rank + 1
        ranks[i] = rank
    return ranks


class Ranking(NamedTuple):
    """Criteria by which T trials are ranked.

    Attributes:
        energies: (T,) E, float64.
        criteria: (T,) the selection criterion, lower is better, float64.
        allowances: (T,) maximum excess of E over the lowest one for the criterion to apply, float64.
        clusters: (T,) number of non-empty clusters.
        sound: (T,) bool, False if an empty cluster ended the trial.
    """

    energies: Tensor
    criteria: Tensor
    allowances: Tensor
    clusters: Tensor
    sound: Tensor

    def order(self, dtype: torch.dtype) -> Tensor:
        """(T,) the trials from best to worst.

        Sound trials come first, then those with the most clusters. Among these, trials with E near the lowest are
        ordered by the criterion, and the others by E. Differences within rounding in this precision are ties, and the
        first trial wins.
        """
        full = self.sound if self.sound.any() else ~self.sound
        full = full & (self.clusters == self.clusters[full].max())
        precision = rounding(dtype)
        lowest = self.energies[full].min()
        near = self.energies <= lowest + self.allowances + precision * lowest.abs()
        compared = torch.where(near, self.criteria, self.energies)
        ranks = _ranks(compared, precision * float(compared.abs().max()))
        keys = ranks, ~near, -self.clusters, ~self.sound
        return torch.from_numpy(np.lexsort([key.cpu().numpy() for key in keys])).to(self.criteria.device)


def cluster_sizes(labels: Tensor, clusters: int) -> Tensor:
    """(T, K) float64, number of points in each cluster, from labels (T, N)."""
    ones = torch.ones_like(labels, dtype=torch.float64)
    return ones.new_zeros(len(labels), clusters).scatter_add_(1, labels, ones)


def indicators(labels: Tensor, clusters: int, dtype: torch.dtype) -> Tensor:
    """(T, K, N) one-hot columns of labels (T, N)."""
    return (labels[:, None] == torch.arange(clusters, device=labels.device)[:, None]).to(dtype)


def best_start(objectives: Tensor, sizes: Tensor, dtype: torch.dtype) -> int:
    """The start with the most clusters and, among those, the lowest objective; the first one up to rounding.

    Args:
        objectives: (T,) float64.
        sizes: (T, K) cluster sizes.
        dtype: dtype in which the objectives were computed.
    """
    clusters = (sizes > 0).sum(dim=1)
    return int(Ranking(objectives, objectives, torch.zeros_like(objectives), clusters, clusters > 0).order(dtype)[0])


def empty_clusters(labels: Tensor, clusters: int) -> int:
    """Number of empty clusters among K for labels (N,); warns if there are any."""
    empty = int((cluster_sizes(labels[None], clusters) == 0).sum())
    warn_of_empty(empty, clusters, stacklevel=5)
    return empty


_UNIFORM = 0.95
"""Mean entropy of assignments, as a share of log K, from which on a warning is raised."""


def entropy_of(assignments: Tensor) -> float:
    """Sum of the entropies, in nats, of assignments of any shape."""
    return float(torch.special.entr(assignments).sum(dtype=torch.float64))


def warn_of_uniform(entropy: float, clusters: int, *, stacklevel: int, remedy: str) -> None:
    """Warn if the mean entropy of assignments, in nats, is close to that of uniform ones, so that argmax is
    uninformative."""
    if clusters > 1 and entropy > _UNIFORM * math.log(clusters):
        warnings.warn(
            f"assignments are nearly uniform over the {clusters} clusters; try {remedy}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def warn_of_empty(empty: int, clusters: int, *, stacklevel: int, remedy: str = "fewer clusters or more starts") -> None:
    """Warn if there are empty clusters."""
    if empty:
        warnings.warn(
            f"{empty} of {clusters} clusters have no points; try {remedy}", ConvergenceWarning, stacklevel=stacklevel
        )
