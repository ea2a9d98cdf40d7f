"""Neighbours on disk, by the fingerprint of what they were found from."""

import warnings
from pathlib import Path

import numpy as np
from torch import Tensor

from clustering.files.arrays import read_arrays
from clustering.files.atomic import replacing
from clustering.foundation.fingerprint import fingerprint
from clustering.graphs.row_search import Found
from clustering.graphs.sparse_rows import SparseTable

_FORMAT = "neighbours 1"


def key(x: Tensor | SparseTable, k: int, search: str) -> str:
    """Depends on every number of X, their precision, k and the search."""
    arrays = (x.pointers, x.columns, x.numbers) if isinstance(x, SparseTable) else (x.contiguous(),)
    numbers = (array.cpu().numpy().data for array in arrays)
    return fingerprint(_FORMAT, str(tuple(x.shape)), str(x.dtype), k, search, *numbers)


def load(path: Path, shape: tuple[int, int]) -> tuple[Found, float] | None:
    """What `store` wrote, and its seconds; None where there is nothing, or only a damaged file, of which a warning says
    so (the zip format holds a checksum of every array)."""
    try:
        kept = read_arrays(path)
        indices, squared = kept["indices"], kept["squared_distances"]
        search, recall, seconds = str(kept["search"]), float(kept["recall"]), float(kept["seconds"])
        if indices.shape != shape or squared.shape != shape or indices.dtype != np.int32:
            raise ValueError(f"neighbours of shape {indices.shape}, not {shape}")
        if not -1 <= indices.min() <= indices.max() < len(indices):
            raise ValueError("places that are none")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        warnings.warn(f"{path} is damaged ({error}) and is written anew", stacklevel=5)
        return None
    return Found(indices, squared, search, recall), seconds  # type: ignore[arg-type]


def store(path: Path, found: Found, seconds: float) -> None:
    """Write beside `path`, then rename over it: it never holds half a file, whoever else writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, seconds=np.float64(seconds), **found._asdict())
