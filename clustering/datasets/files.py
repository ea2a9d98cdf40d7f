"""Files of a data set in the forms in which people have them."""

import bz2
import gzip
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import UNREADABLE, read_arrays
from clustering.files.regular import open_regular
from clustering.foundation import memory
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint

Arrays = Mapping[str, NDArray[Any]]
Part = tuple[NDArray[Any], NDArray[Any]]


def folder_of(name: str, root: str | None, wanted: str) -> Path:
    """The folder that was given.

    Raises:
        InputError: says what belongs in it.
    """
    if root is None:
        raise InputError(f"dataset {name}: no folder given; add root=FOLDER with {wanted}")
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise InputError(f"dataset {name}: {folder} is no folder; give root=FOLDER with {wanted}")
    return folder


def first_of(folder: Path, *names: str) -> Path | None:
    """The first of these files that is there, packed (.gz) or not."""
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def files_of(name: str, root: str | None, wanted: str, *forms: Sequence[str]) -> list[Path]:
    """The files of the first of these forms of which all are there.

    Raises:
        InputError: there is none; says what belongs in the folder.
    """
    folder = folder_of(name, root, wanted)
    for form in forms:
        found = [path for path in (first_of(folder, file) for file in form) if path]
        if len(found) == len(form):
            return found
    raise missing(name, folder, wanted)


def missing(name: str, folder: Path, wanted: str) -> InputError:
    """None of the files is there."""
    return InputError(f"dataset {name}: {folder} does not hold {wanted}; put it there, or give another root=FOLDER")


def damaged(name: str, path: Path, error: BaseException) -> InputError:
    """A file is not what its name says; what says by itself what is wrong, and what to do, stays as it is."""
    if isinstance(error, InputError):
        return error
    why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return InputError(f"dataset {name}: {path} cannot be read ({why}); fetch it again")


def fingerprint_of(name: str, recipe: int, paths: Sequence[Path]) -> str:
    """Identity of the bytes of files, whatever they are called."""
    found = Fingerprint(name, recipe)
    for path in paths:
        found.begin(path.stat().st_size)
        with open_regular(path) as file:
            while piece := file.read(1 << 22):
                found.go_on(piece)
    return str(found)


def open_bytes(path: Path) -> bytes:
    """Its bytes, unpacked where it ends in .gz or .bz2."""
    if path.suffix not in (".gz", ".bz2"):
        with open_regular(path) as file:
            return file.read()
    parts, size = [], 0
    with open_regular(path) as file, gzip.open(file) if path.suffix == ".gz" else bz2.open(file) as packed:
        while piece := packed.read(1 << 22):
            size += len(piece)
            # A few bytes can be many zeros.
            memory.require(f"{path}: unpacking it", {"contents": size}, "give a smaller file")
            parts.append(piece)
    return b"".join(parts)


def arrays_of(path: Path) -> Arrays:
    """The arrays of a .npz or .mat file."""
    if path.suffix == ".mat":
        from scipy.io import loadmat, whosmat
        from scipy.io.matlab import MatReadError

        try:
            with open_regular(path) as file:
                sizes = {name: 8 * math.prod(shape) for name, shape, _ in whosmat(file)}
            memory.require(f"{path}: unpacking it", sizes, "give a smaller file")
            return {key: value for key, value in loadmat(path).items() if not key.startswith("__")}
        except MatReadError as error:
            raise ValueError(error) from error
        except NotImplementedError as error:
            raise ValueError("it is of MATLAB 7.3; save it with -v7, or as .npz") from error
    return read_arrays(path)


def rows_and_classes(name: str, paths: Sequence[Path], part: Callable[[Path], Part]) -> Part:
    """Rows and classes of one .npz file of both parts, or of a file a part, which `part` reads.

    Raises:
        InputError: a file is not what its name says.
    """
    try:
        if len(paths) == 1:
            return train_and_test(arrays_of(paths[0]))
        values, classes = zip(*map(part, paths), strict=True)
        return np.concatenate(values), np.concatenate(classes)
    except UNREADABLE as error:
        raise damaged(name, paths[0], error) from error


def train_and_test(arrays: Arrays) -> Part:
    """Rows and classes of x_train, x_test, y_train and y_test, train first."""
    values = np.concatenate([arrays["x_train"], arrays["x_test"]])
    return values.reshape(len(values), -1), np.concatenate([arrays["y_train"], arrays["y_test"]]).ravel()
