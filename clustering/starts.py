"""Several starts of one fit, of which one is the result."""

import warnings

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor


def cluster_sizes(labels: Tensor, clusters: int) -> Tensor:
    """(T, K) float64 numbers of points in each cluster, of labels (T, N)."""
    ones = torch.ones_like(labels, dtype=torch.float64)
    return ones.new_zeros(len(labels), clusters).scatter_add_(1, labels, ones)


def indicators(labels: Tensor, clusters: int, dtype: torch.dtype) -> Tensor:
    """(T, K, N) one-hot columns of labels (T, N)."""
    return (labels[:, None] == torch.arange(clusters, device=labels.device)[:, None]).to(dtype)


def best_start(objectives: Tensor, labels: Tensor, clusters: int) -> int:
    """The start of most clusters, and among those the one of the lowest objective, the first up to rounding.

    Args:
        objectives: (T,) float64.
        labels: (T, N).
        clusters: K.
    """
    return best_by_sizes(objectives, cluster_sizes(labels, clusters))


def best_by_sizes(objectives: Tensor, sizes: Tensor) -> int:
    """Likewise, from the points of every cluster (T, K)."""
    filled = (sizes > 0).sum(dim=1)
    most = filled == filled.max()
    lowest = objectives[most].min()
    return int((most & (objectives <= lowest + 1e-9 * lowest.abs())).int().argmax())


def empty_clusters(labels: Tensor, clusters: int) -> int:
    """How many of K clusters have none of the labels (N,); some are worth a warning."""
    return warn_of_empty(cluster_sizes(labels[None], clusters)[0], stacklevel=4)


def warn_of_empty(sizes: Tensor, stacklevel: int = 3) -> int:
    """Likewise, from the points of every cluster (K,)."""
    empty = int((sizes == 0).sum())
    if empty:
        warnings.warn(
            f"{empty} of {len(sizes)} clusters have no points; try fewer clusters or more starts",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    return empty
