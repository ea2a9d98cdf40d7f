"""Input and results of an estimator fitted to a `dask.array`."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clustering.blocks.rows import BlockRows
from clustering.foundation.errors import InputError

if TYPE_CHECKING:
    from distributed import Future


def begin_fit(model: Any, X: Any) -> BlockRows:
    """The rows of X, prepared according to the parameters normalize, device and n_clusters of an estimator.

    Raises:
        InputError: the rows are invalid, or fewer than clusters; a GPU is requested; or there is no cluster.
    """
    if model.device == "cuda":
        raise InputError(f"{type(model).__name__}: device='cuda' is not supported for a dask.array; set device='cpu'")
    rows = BlockRows.of(X, normalize=model.normalize == "l2")
    if rows.points < model.n_clusters:
        raise InputError(f"n_samples={rows.points} should be >= n_clusters={model.n_clusters}")
    model.n_features_in_ = rows.dimension
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    return rows


def dask_array(parts: list["Future"], shapes: list[tuple[int, ...]], dtype: torch.dtype) -> Any:
    """The vertical concatenation of arrays computed by tasks, as a dask array on the workers."""
    import dask.array
    from dask.delayed import delayed

    kind = np.dtype(str(dtype).removeprefix("torch."))
    arrays = [
        dask.array.from_delayed(delayed(part), shape, dtype=kind) for part, shape in zip(parts, shapes, strict=True)
    ]
    return dask.array.concatenate(arrays)
