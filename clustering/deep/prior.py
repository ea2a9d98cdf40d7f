"""The prior over the clusters: their expected shares."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from clustering.foundation.errors import InputError


def checked_prior(prior: str | ArrayLike, n_clusters: int) -> Tensor:
    """(K,) float32 shares of the classes, which sum to one.

    Args:
        prior: "balanced", or (K,) relative sizes.
        n_clusters: K.

    Raises:
        InputError: the prior is neither, or a share underflows.
    """
    try:
        values = (
            np.ones(n_clusters) if isinstance(prior, str) and prior == "balanced" else np.asarray(prior, np.float64)
        )
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (n_clusters,) or not np.isfinite(values).all() or values.min() <= 0:
        raise InputError(
            f"prior must be 'balanced' or {n_clusters} numbers above 0, the clusters' expected sizes, not {prior!r}"
        )
    shares = torch.from_numpy(values / values.sum()).float()
    if shares.min() < torch.finfo(shares.dtype).tiny:
        raise InputError(f"prior={values.tolist()}: the smallest share underflows; remove that cluster")
    return shares
