"""Features that somebody else's network gave, kept in one file, where they cannot be made again."""

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
        what: the features, in words, for the message where they are missing.

    Raises:
        InputError: says what to put where.
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
        InputError: the file is damaged, or not of so many dimensions and classes.
    """
    try:
        arrays = arrays_of(path)
    except UNREADABLE as error:
        raise damaged(name, path, error) from error
    found = [next((key for key in keys if key in arrays), None) for keys in (VALUES, CLASSES)]
    if None in found:
        held = ", ".join(arrays) or "nothing"
        raise InputError(f"dataset {name}: {path} holds {held}; call the features x and the classes y")
    values, given = arrays[str(found[0])], arrays[str(found[1])].ravel()
    if values.ndim != 2 or values.shape[1] != dimensions or len(given) != len(values):
        raise InputError(
            f"dataset {name}: {path} holds {found[0]} {values.shape} and {found[1]} ({len(given)},), "
            f"not (N, {dimensions}) and (N,)"
        )
    labels, names = numbered(given)
    if len(names) != classes:
        raise InputError(f"dataset {name}: {path} has {len(names)} classes, not {classes}")
    return Dataset(values.astype(np.float32), labels, names)
