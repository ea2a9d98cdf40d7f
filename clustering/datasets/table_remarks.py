"""What may be a mistake in a table: codes for missing values, spellings of a category, copies of rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.datasets.table_columns import Column
from clustering.files.cells import spelling

CODES = (*(-9, -99, -999, -9999, -99999), *(99, 999, 9999, 99999, 999999))
"""Numbers that are written for missing values."""


def remarks(columns: Sequence[Column]) -> tuple[str, ...]:
    """What a user should look at before the rows are clustered."""
    found = [remark for column in columns if (remark := _codes(column) or _spellings(column))]
    copies = pd.DataFrame({place: column.values for place, column in enumerate(columns)}).duplicated(keep=False)
    rows = np.flatnonzero(copies)
    # rows of a few categories and rounded numbers agree by chance
    if any(_has_details(column.values) for column in columns) and len(rows):
        numbers = ", ".join(str(row + 1) for row in rows[:4]) + ", ..." * (len(rows) > 4)
        agree = f"{len(rows):,} rows agree with others in all columns used, as rows {numbers}"
        found.append(f"{agree}; remove those that are copies")
    return tuple(found)


def _codes(column: Column) -> str:
    """A remark on codes that are further from the other values than these from each other."""
    if column.kind != "numbers":
        return ""
    present = column.values[~np.isnan(column.values)]
    coded = np.isin(present, CODES)
    others = present[~coded]
    if len(np.unique(others)) < 3:
        return ""
    low, high = float(others.min()), float(others.max())
    far = coded & ((present > high + (high - low)) | (present < low - (high - low)) | ((present < 0) & (low >= 0)))
    if not far.any():
        return ""
    code, count = present[far][0], int(far.sum())
    row = int((column.values == code).argmax()) + 1
    return (
        f"column {column.name!r} has {code:g} in row {row}{f' and in {count - 1:,} others' * (count > 1)}, and "
        f"{low:g} to {high:g} elsewhere; if it means a missing value, clear the cell"
    )


def _spellings(column: Column) -> str:
    """A remark on categories that differ only in case or blanks."""
    if column.kind != "categories":
        return ""
    first: dict[str, str] = {}
    for name in column.categories:
        if (other := first.setdefault(spelling(name), name)) != name:
            return (
                f"column {column.name!r} has {other!r} and {name!r}, which differ only in case or blanks, but are "
                "different categories; write them alike"
            )
    return ""


def _has_details(values: NDArray[np.float64]) -> bool:
    """Whether most values of a column differ from each other."""
    present = values[~np.isnan(values)]
    return 2 * len(np.unique(present)) > len(present)
