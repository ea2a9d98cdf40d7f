"""The columns of a table that a labeller looks at, and the numbers of a CSV file."""

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.cells import numbers_of
from clustering.files.picture_formats import PICTURES
from clustering.files.tables import is_parquet, read_table
from clustering.foundation.errors import InputError, unknown
from runs.labelling.label_config import PileConfig
from runs.own_data.page import as_utf8

if TYPE_CHECKING:
    import pandas as pd

LONGEST = 2000  # characters of a cell on the page


def read_shown(config: PileConfig, rows: int) -> tuple[Sequence[str | None], Mapping[str, Sequence[str]]]:
    """Read the columns `show`.

    Args:
        config: the config of a table.
        rows: N.

    Returns:
        The file of each row's picture, None for a row without, and the text of each row by column.

    Raises:
        InputError: a column does not exist, or a picture is outside of the table's folder.
    """
    nothing: Sequence[str | None] = [None] * rows
    if not config.show:
        return nothing, {}
    frame = _columns(config, config.show)
    pictures, texts = nothing, dict[str, Sequence[str]]()
    for name in config.show:
        cells = [None if missing else str(cell) for cell, missing in zip(frame[name], frame[name].isna(), strict=True)]
        first = next((cell for cell in cells if cell), "")
        if first.lower().endswith(PICTURES) and pictures is nothing:
            pictures = [_inside(config, name, row, cell) for row, cell in enumerate(cells)]
        else:
            texts[name] = [_shortened(cell or "") for cell in cells]
    return pictures, texts


def numbers_of_csv(config: PileConfig) -> NDArray[np.float64]:
    """(N, D) numbers of the columns `features` of a CSV file.

    Raises:
        InputError: no column is given, one does not exist, or has a cell without a number.
    """
    if not config.features:
        raise InputError(
            f"{config.place}: which columns are features? Choose with --features a,b,c or --features emb_*"
        )
    frame = read_table(config.place).rows
    names = list(frame.columns)
    chosen = list[str]()
    for pattern in config.features:
        found = [name for name in names if name == pattern] or [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            raise InputError(f"{config.place}: {unknown('column', pattern, names)}")
        chosen += found
    matrix = np.empty((len(frame), len(chosen)))
    for place, name in enumerate(chosen):
        numbers, _ = numbers_of(frame[name], comma=False)
        if np.isnan(numbers).any():
            row = int(np.isnan(numbers).argmax())
            raise InputError(
                f"{config.place}: column {name!r} has no number in row {row} ({frame[name].iloc[row]!r}); fill it in, "
                "or choose other features"
            )
        matrix[:, place] = numbers
    return matrix


def _columns(config: PileConfig, names: Sequence[str]) -> "pd.DataFrame":
    """These columns of the table.

    Raises:
        InputError: a column does not exist.
    """
    if is_parquet(config.place):
        from pyarrow import parquet

        known = [str(name) for name in parquet.read_schema(config.place).names]
        _check_known(config, names, known)
        frame: pd.DataFrame = parquet.read_table(config.place, columns=list(dict.fromkeys(names))).to_pandas()
        return frame.reset_index() if set(names) - set(frame.columns) else frame
    frame = read_table(config.place).rows
    _check_known(config, names, list(frame.columns))
    return frame


def _check_known(config: PileConfig, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{config.place}: {unknown('column', name, known)}")


def _inside(config: PileConfig, column: str, row: int, cell: str | None) -> str | None:
    """The file of a picture, by its path relative to the table's folder; None if there is no such file.

    Raises:
        InputError: the path leads out of the folder, also by a link.
    """
    if not cell:
        return None
    folder = os.path.realpath(config.place.parent)
    try:
        file = os.path.realpath(os.path.join(folder, cell))
        inside = os.path.commonpath((folder, file)) == folder
    except ValueError:  # a NUL byte, or another drive
        return None
    if not inside:
        raise InputError(
            f"{config.place}: column {column!r} names {cell!r} in row {row}, outside of the folder of the table; copy "
            "the pictures into it"
        )
    return file if os.path.isfile(file) and file.lower().endswith(PICTURES) else None


def _shortened(cell: Any) -> str:
    text = as_utf8(cell)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
