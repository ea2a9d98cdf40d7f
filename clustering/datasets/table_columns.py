"""The type of each column of a table: numbers, dates or categories, or the reason why it cannot be used."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clustering.files.cells import ALMOST, amount_among, days_of, texts_of
from clustering.files.tables import GROUPED, TableFile

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

    column, (numbers, text) = file.column(name), file.parsed(name)
    present = int((~np.isnan(numbers) | text).sum())
    if present == 0:
        return Unfit("no values")
    if value := file.grouped(name):
        return Unfit(GROUPED.format(value), mistakes=True)
    if not text.any():
        return Column(name, "numbers", numbers)
    if amount := amount_among(texts_of(column)[0][text], present):
        return Unfit(f"amounts such as {amount!r}; write them as numbers, without signs and groups", mistakes=True)
    if 1 - text.sum() / present >= ALMOST:
        return Unfit(_mistakes(file, name, text, present, "a number"), mistakes=True)
    days, unclear = days_of(column)
    if unclear:
        return Unfit(f"ambiguous dates such as {unclear!r}; write them as 2024-03-31")
    dates = int((~np.isnan(days)).sum())
    if dates == present:
        return Column(name, "dates", days)
    if dates >= ALMOST * present:
        return Unfit(_mistakes(file, name, np.isnan(days) & text, present, "a date"), mistakes=True)
    kind = pd.api.types.infer_dtype(column.astype(object), skipna=True)
    if kind not in ("string", "boolean", "integer", "mixed-integer"):
        return Unfit("neither numbers, dates nor text")
    texts, missing = texts_of(column)
    names, codes = np.unique(texts[~missing], return_inverse=True)
    row = int(text.argmax())
    mixed = f"; row {row + 1} has {str(column.iloc[row])[:40]!r}" if text.sum() < present else ""
    if len(names) == len(codes) > 1:
        return Unfit(f"text that differs in every row, such as names{mixed}")
    if len(names) > MAX_CATEGORIES:
        return Unfit(f"text with {len(names):,} different values, at most {MAX_CATEGORIES} can be categories{mixed}")
    values = np.full(len(column), np.nan)
    values[~missing] = codes
    return Column(name, "categories", values, tuple(names.tolist()))


def _mistakes(file: TableFile, name: str, wrong: NDArray[np.bool_], present: int, expected: str) -> str:
    row = int(wrong.argmax())
    verb = "is" if wrong.sum() == 1 else "are"
    first = str(file.column(name).iloc[row])[:40]
    return (
        f"{wrong.sum():,} of {present:,} cells {verb} not {expected}, first {first!r} in row {row + 1}. Enter "
        f"{expected}, or clear the cell and set missing="
    )


def reason_unused(column: Column) -> str:
    """Why a column is not used by default; empty if it is used."""
    values = column.values[~np.isnan(column.values)]
    if len(values) > 1 and (values == values[0]).all():
        gaps = len(values) < len(column.values)
        return "the same in every row" + f" that has a value{NO_MEANT}" * gaps
    if column.kind == "numbers" and len(column.values) > 2 and (np.diff(column.values) == 1).all():
        return "counts the rows"
    return ""
