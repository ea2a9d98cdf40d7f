"""Several starts of one fit, of which one is the result."""

import math
import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from clustering.evaluation.protocol import NEARLY
from clustering.optimiser.alternation import Outcome

Select = Literal["information", "energy"]
"""What is compared: E, or R - 2 N H."""


def rounding(dtype: torch.dtype) -> float:
    """Relative difference below which two objectives count as equal in this precision."""
    return 1e-9 if dtype == torch.float64 else 1e-5


def first_lowest(objectives: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    """(…) the first of the lowest of objectives (…, T) >= 0, up to rounding in the precision they were computed in."""
    values = torch.as_tensor(objectives, dtype=torch.float64)
    lowest = values.amin(dim=-1, keepdim=True)
    return (values <= lowest * (1 + rounding(dtype))).int().argmax(dim=-1)


def _ranks(values: Tensor, allowance: float) -> Tensor:
    """(T,) 0 for the lowest of values (T,) and what is above it by rounding alone, 1 for the lowest of the others and
    what is above that by rounding alone, and so on."""
    ranks = torch.zeros_like(values, dtype=torch.int64)
    lowest, rank = -torch.inf, -1
    for i in values.argsort().tolist():
        if not float(values[i]) <= lowest + allowance:
            lowest, rank = float(values[i]), rank + 1
        ranks[i] = rank
    return ranks


class Standing(NamedTuple):
    """How T trials compare.

    Attributes:
        energies: (T,) E, float64.
        criteria: (T,) what is compared, lower is better, float64.
        allowances: (T,) by how much E may be above the lowest if the criterion is to count, float64.
        clusters: (T,) how many have points.
        sound: (T,) bool, False where a lost cluster ended the trial.
    """

    energies: Tensor
    criteria: Tensor
    allowances: Tensor
    clusters: Tensor
    sound: Tensor

    def order(self, dtype: torch.dtype) -> Tensor:
        """(T,) the trials from best to worst: sound ones, those of most clusters, those of about the lowest E by the
        criterion, the others by E; of those whose difference is rounding in this precision the first."""
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
    """(T, K) float64 numbers of points in each cluster, of labels (T, N)."""
    ones = torch.ones_like(labels, dtype=torch.float64)
    return ones.new_zeros(len(labels), clusters).scatter_add_(1, labels, ones)


def indicators(labels: Tensor, clusters: int, dtype: torch.dtype) -> Tensor:
    """(T, K, N) one-hot columns of labels (T, N)."""
    return (labels[:, None] == torch.arange(clusters, device=labels.device)[:, None]).to(dtype)


def compared(energies: Tensor, objectives: Tensor, sizes: Tensor, outcomes: Tensor, select: Select) -> Standing:
    """How trials compare, from (T,) E, (T,) R, (T, K) float64 points of the clusters and (T,) values of `Outcome`."""
    points, criteria = sizes.sum(dim=1), energies
    if select == "information":
        criteria = objectives - 2 * points * torch.special.entr(sizes / points[:, None]).sum(dim=1)
    return Standing(energies, criteria, NEARLY * points, (sizes > 0).sum(dim=1), outcomes != Outcome.EMPTIED)


def best_start(objectives: Tensor, sizes: Tensor, dtype: torch.dtype) -> int:
    """The start of most clusters, and among those the one of the lowest objective, the first up to rounding.

    Args:
        objectives: (T,) float64.
        sizes: (T, K) points of the clusters.
        dtype: in which the objectives were computed.
    """
    clusters = (sizes > 0).sum(dim=1)
    return int(Standing(objectives, objectives, torch.zeros_like(objectives), clusters, clusters > 0).order(dtype)[0])


def empty_clusters(labels: Tensor, clusters: int) -> int:
    """How many of K clusters have none of the labels (N,); some are worth a warning."""
    empty = int((cluster_sizes(labels[None], clusters) == 0).sum())
    warn_of_empty(empty, clusters, stacklevel=5)
    return empty


_UNIFORM = 0.95
"""Share of log K from which on the mean entropy of assignments is worth a warning."""


def entropy_of(assignments: Tensor) -> float:
    """Sum of the entropies, in nats, of assignments whatever their shape."""
    return float(torch.special.entr(assignments).sum(dtype=torch.float64))


def warn_of_uniform(entropy: float, clusters: int, *, stacklevel: int, remedy: str) -> None:
    """Warn where the mean entropy of assignments, in nats, is nearly that of uniform ones, so that the largest of each
    tells little."""
    if clusters > 1 and entropy > _UNIFORM * math.log(clusters):
        warnings.warn(
            f"assignments are nearly uniform over the {clusters} clusters; try {remedy}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def warn_of_empty(empty: int, clusters: int, *, stacklevel: int, remedy: str = "fewer clusters or more starts") -> None:
    """Warn of clusters without points, where there are some."""
    if empty:
        warnings.warn(
            f"{empty} of {clusters} clusters have no points; try {remedy}", ConvergenceWarning, stacklevel=stacklevel
        )
