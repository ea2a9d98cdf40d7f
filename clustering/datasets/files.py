"""Reading the files of a data set in their various formats."""

import bz2
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clustering.files.arrays import read_arrays
from clustering.files.regular import fingerprint_of_files, open_regular
from clustering.foundation.errors import InputError

Arrays = Mapping[str, NDArray[Any]]
Part = tuple[NDArray[Any], NDArray[Any]]


def folder_of(name: str, root: str | None, files: str) -> Path:
    """The folder of a data set.

    Raises:
        InputError: there is no such folder; the message says which files belong in it.
    """
    if root is None:
        raise InputError(f"dataset {name}: no folder given; add root=FOLDER with {files}")
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise InputError(f"dataset {name}: {folder} is not a folder; set root=FOLDER to a folder with {files}")
    return folder


def first_of(folder: Path, *names: str) -> Path | None:
    """The first of these files that exists, either plain or compressed (.gz)."""
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def files_of(name: str, root: str | None, files: str, *forms: Sequence[str]) -> list[Path]:
    """The files of the first of these alternatives that is complete.

    Raises:
        InputError: no alternative is complete; the message says which files belong in the folder.
    """
    folder = folder_of(name, root, files)
    for form in forms:
        paths = [path for path in (first_of(folder, file) for file in form) if path]
        if len(paths) == len(form):
            return paths
    raise missing(name, folder, files)


def missing(name: str, folder: Path, files: str) -> InputError:
    """The error that none of the files exists."""
    return InputError(f"dataset {name}: {folder} does not contain {files}; put it there, or set another root=FOLDER")


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
    """Open a file for reading bytes, decompressed if it ends in .gz or .bz2."""
    if path.suffix not in (".gz", ".bz2"):
        with open_regular(path) as file:
            return file.read()
    with open_regular(path) as file, gzip.open(file) if path.suffix == ".gz" else bz2.open(file) as packed:
        return packed.read()


def arrays_of(path: Path) -> Arrays:
    """The arrays of a .npz or .mat file."""
    if path.suffix == ".mat":
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError

        try:
            with open_regular(path) as file:
                return {key: value for key, value in loadmat(file).items() if not key.startswith("__")}
        except MatReadError as error:
            raise ValueError(error) from error
        except NotImplementedError as error:
            raise ValueError("it has the format of MATLAB 7.3; save it with -v7, or as .npz") from error
    return read_arrays(path)
