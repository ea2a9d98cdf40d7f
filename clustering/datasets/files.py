"""Finding and reading the files of a data set."""

import bz2
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clustering.files.arrays import read_arrays
from clustering.files.regular import fingerprint_of_files, open_regular
from clustering.foundation.errors import InputError


def files_of(name: str, root: str | None, forms: Sequence[Sequence[str]], content: str = "") -> list[Path]:
    """The files of the first of these alternatives that is complete, each plain or compressed (.gz).

    Args:
        name: name of the data set.
        root: its folder.
        forms: alternatives, each the names of some files.
        content: what the files contain, for messages.

    Raises:
        InputError: there is no such folder, or no alternative is complete; the message says which files belong in it.
    """
    wanted = f"{', or '.join(' and '.join(form) for form in forms)} (plain or .gz{content and f'; {content}'})"
    if root is None:
        raise InputError(f"dataset {name}: no folder given; add root=FOLDER with {wanted}")
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise InputError(f"dataset {name}: {folder} is not a folder; set root=FOLDER to a folder with {wanted}")
    for form in forms:
        found = [next((p for p in (folder / file, folder / f"{file}.gz") if p.is_file()), None) for file in form]
        paths = [path for path in found if path is not None]
        if len(paths) == len(form):
            return paths
    raise InputError(f"dataset {name}: {folder} does not contain {wanted}; put it there, or set another root=FOLDER")


def damaged(name: str, path: Path, error: BaseException) -> InputError:
    """The error that a file is not what its name says; an InputError is returned unchanged."""
    if isinstance(error, InputError):
        return error
    reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return InputError(f"dataset {name}: {path} cannot be read ({reason}); download it again")


def fingerprint_of(name: str, recipe: int, paths: Sequence[Path]) -> str:
    """Fingerprint of the content of files, independent of their names."""
    return fingerprint_of_files(paths, name, recipe)


def open_bytes(path: Path) -> bytes:
    """The content of a file, decompressed if it ends in .gz or .bz2."""
    with open_regular(path) as file:
        unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix, bytes)
        return unpack(file.read())


def arrays_of(path: Path) -> Mapping[str, NDArray[Any]]:
    """The arrays of a .npz or .mat file.

    Raises:
        OSError, ValueError, NotImplementedError: the file is damaged, or of MATLAB 7.3, which scipy does not read.
    """
    if path.suffix != ".mat":
        return read_arrays(path)
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        with open_regular(path) as file:
            return {key: value for key, value in loadmat(file).items() if not key.startswith("__")}
    except MatReadError as error:
        raise ValueError(error) from error
