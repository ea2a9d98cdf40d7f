"""Features of published networks in a single file, for data sets whose features cannot be computed here."""

from pathlib import Path

import numpy as np

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import arrays_of, damaged, first_of, folder_of, missing
from clustering.files.arrays import UNREADABLE
from clustering.foundation.errors import InputError

VALUES = ("x", "X", "data", "features", "fea", "codes")
CLASSES = ("y", "Y", "labels", "label", "gnd", "gt", "targets")


def stored_file(name: str, root: str | None, stem: str, what: str) -> Path:
    """STEM.npz or STEM.mat in a folder.

    Args:
        name: name of the data set.
        root: the folder.
        stem: STEM.
        what: description of the features, for messages.

    Raises:
        InputError: there is no such file; the message says which file belongs where.
    """
    wanted = f"{stem}.npz or {stem}.mat: {what}, as x (N, D), and y (N,)"
    folder = folder_of(name, root, wanted)
    path = first_of(folder, f"{stem}.npz", f"{stem}.mat")
    if path is None:
        raise missing(name, folder, wanted)
    return path


def stored_features(name: str, path: Path, dimensions: int, classes: int) -> Dataset:
    """The rows and classes of such a file.

    Raises:
        InputError: the file is damaged, or has other numbers of dimensions or classes.
    """
    try:
        arrays = arrays_of(path)
    except UNREADABLE as error:
        raise damaged(name, path, error) from error
    names_in_file = [next((key for key in keys if key in arrays), None) for keys in (VALUES, CLASSES)]
    if None in names_in_file:
        held = ", ".join(arrays) or "nothing"
        raise InputError(f"dataset {name}: {path} contains {held}; name the features x and the classes y")
    values, given = arrays[str(names_in_file[0])], arrays[str(names_in_file[1])].ravel()
    if values.ndim != 2 or values.shape[1] != dimensions or len(given) != len(values):
        raise InputError(
            f"dataset {name}: {path} holds {names_in_file[0]} {values.shape} and {names_in_file[1]} ({len(given)},), "
            f"not (N, {dimensions}) and (N,)"
        )
    labels, names = numbered(given)
    if len(names) != classes:
        raise InputError(f"dataset {name}: {path} has {len(names)} classes, not {classes}")
    return Dataset(values.astype(np.float32), labels, names)
