"""Cache of neighbours on disk, keyed by a fingerprint of their input."""

import warnings
from pathlib import Path

import numpy as np
from torch import Tensor

from clustering.files.arrays import read_arrays
from clustering.files.atomic import replacing
from clustering.foundation.fingerprint import fingerprint
from clustering.graphs.row_search import NearestRows
from clustering.graphs.sparse_rows import SparseTable

_FORMAT = "neighbours 1"


def key(x: Tensor | SparseTable, k: int, search: str) -> str:
    """Key that depends on every number of X, its precision, k and the search."""
    arrays = (x.pointers, x.columns, x.numbers) if isinstance(x, SparseTable) else (x.contiguous(),)
    numbers = (array.cpu().numpy().data for array in arrays)
    return fingerprint(_FORMAT, str(tuple(x.shape)), str(x.dtype), k, search, *numbers)


def load(path: Path, shape: tuple[int, int]) -> tuple[NearestRows, float] | None:
    """What `store` wrote, and the time of the search; None if there is no file, or a damaged one, with a warning.

    The zip format has a checksum of every array.
    """
    try:
        kept = read_arrays(path)
        indices, squared = kept["indices"], kept["squared_distances"]
        search, recall, seconds = str(kept["search"]), float(kept["recall"]), float(kept["seconds"])
        if indices.shape != shape or squared.shape != shape or indices.dtype != np.int32:
            raise ValueError(f"neighbours of shape {indices.shape}, not {shape}")
        if not -1 <= indices.min() <= indices.max() < len(indices):
            raise ValueError("indices out of range")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        warnings.warn(f"{path} is damaged ({error}) and will be rewritten", stacklevel=5)
        return None
    return NearestRows(indices, squared, search, recall), seconds  # type: ignore[arg-type]


def store(path: Path, neighbours: NearestRows, seconds: float) -> None:
    """Write to a temporary file and rename it, so that the file is always complete, even with concurrent writers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, seconds=np.float64(seconds), **neighbours._asdict())
