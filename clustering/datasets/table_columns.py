"""The type of each column of a table: numbers, dates or categories, or the reason why it cannot be used."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.files.cells import ALMOST, Cells
from clustering.files.tables import AMBIGUOUS, TableFile

Kind = Literal["numbers", "dates", "categories"]
NO_MEANT = "; if an empty cell means no, write no in it"
MAX_CATEGORIES = 50  # limit per column, since each category becomes a feature


@dataclass(frozen=True, eq=False)
class Column:
    """A column that can be clustered by.

    Attributes:
        name: its name in the file.
        kind: "numbers", "dates" (days since 1970-01-01) or "categories" (indices into `categories`).
        values: (N,) values, NaN for missing ones.
        categories: names of the categories.
    """

    name: str
    kind: Kind
    values: NDArray[np.float64]
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unfit:
    """Why a column cannot be clustered by.

    Attributes:
        why: reason, phrased to follow the name of the column.
        mistakes: whether a few invalid cells are the only reason, which a user can correct.
    """

    why: str
    mistakes: bool = False


def read_column(file: TableFile, name: str) -> Column | Unfit:
    """Determine the type of a column and read it.

    Raises:
        InputError: there is no such column.
    """
    import pandas as pd

    cells = file.cells(name)
    numbers, text = cells.numbers, cells.is_text
    present = int((~np.isnan(numbers) | text).sum())
    if present == 0:
        return Unfit("no values")
    if cells.ambiguous:
        return Unfit(AMBIGUOUS.format(cells.ambiguous), mistakes=True)
    if not text.any():
        return Column(name, "numbers", numbers)
    if cells.amount:
        return Unfit(
            f"amounts such as {cells.amount!r}; write them as numbers, without signs, units and groups", mistakes=True
        )
    if 1 - text.sum() / present >= ALMOST:
        return _mistaken(cells, text, present, "a number")
    days, unclear = cells.days()
    if unclear:
        return Unfit(f"ambiguous dates such as {unclear!r}; write them as 2024-03-31")
    dates = int((~np.isnan(days)).sum())
    if dates == present:
        return Column(name, "dates", days)
    if dates >= ALMOST * present:
        return _mistaken(cells, np.isnan(days) & text, present, "a date")
    kind = pd.api.types.infer_dtype(cells.column.astype(object), skipna=True)
    if kind not in ("string", "boolean", "integer", "mixed-integer"):
        return Unfit("neither numbers, dates nor text")
    names, codes = np.unique(cells.texts[~cells.missing], return_inverse=True)
    row = int(text.argmax())
    mixed = f"; row {row + 1} has {cells.shown(row)}" if text.sum() < present else ""
    if len(names) == len(codes) > 1:
        return Unfit(f"text that differs in every row, such as names{mixed}")
    if len(names) > MAX_CATEGORIES:
        return Unfit(f"text with {len(names):,} different values, at most {MAX_CATEGORIES} can be categories{mixed}")
    values = np.full(len(text), np.nan)
    values[~cells.missing] = codes
    return Column(name, "categories", values, tuple(names.tolist()))


def _mistaken(cells: Cells, wrong: NDArray[np.bool_], present: int, expected: str) -> Unfit:
    row, count = int(wrong.argmax()), int(wrong.sum())
    return Unfit(
        f"{count:,} of {present:,} cells {'is' if count == 1 else 'are'} not {expected}, first {cells.shown(row)} in "
        f"row {row + 1}. Enter {expected}, or clear the cell and set missing=",
        mistakes=True,
    )


def useful(column: Column | Unfit) -> Column | Unfit:
    """A column, or the reason why it is not used unless it is named."""
    if isinstance(column, Unfit):
        return column
    values = column.values[~np.isnan(column.values)]
    if len(values) > 1 and (values == values[0]).all():
        gaps = len(values) < len(column.values)
        return Unfit("the same in every row" + f" that has a value{NO_MEANT}" * gaps)
    distinct = pd.unique(column.values)  # in their order; some rows may be copies
    counting = len(distinct) > max(2, 0.9 * len(column.values)) and (np.diff(distinct) == 1).all()
    if column.kind == "numbers" and counting:
        return Unfit("counts the rows")
    return column


def spreads(values: NDArray[np.floating], column_of: NDArray[np.intp]) -> NDArray[np.float64]:
    """(D,) standard deviations of features.

    Features that are categories of one column share the root of twice their summed variances, and a column of two
    numbers is such a category: together they have half the variance of another column (Hennig and Liao 2013, q = 1/2).
    With the same variance, a category would outweigh numbers, because a division into two by a category of two values
    removes all of its variance, one by a normal variable only 2/pi = 0.64 of it.

    Args:
        values: (N, D), finite.
        column_of: (D,) column of each feature, 0..C-1.
    """
    deviations: NDArray[np.float64] = values.std(axis=0)
    two_valued = ((values == values.min(axis=0)) | (values == values.max(axis=0))).all(axis=0)
    category = two_valued | (np.bincount(column_of)[column_of] > 1)
    return np.where(category, np.sqrt(2 * np.bincount(column_of, deviations**2))[column_of], deviations)
