"""Arrays of a file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file, by name; none of objects, which only running code could build.

    Raises:
        FileNotFoundError: there is none.
        OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error: it is damaged, or no archive of arrays.
    """
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:  # by itself it leaves a bad file open
        return dict(arrays)
