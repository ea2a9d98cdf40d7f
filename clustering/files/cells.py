"""Interpretation of the cells of a column as numbers, dates or words."""

import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

NO_CATEGORY = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "?", "-"))
NO_VALUE = NO_CATEGORY | {"none"}  # "none" can be a category like red or blue
ALMOST = 0.9  # if at least this share of the values of a column has one type, the others count as errors
_MONEY = r"(?:[$€£¥₹]|[A-Z]{2}\$|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|kr|zł)"
_AMOUNT = re.compile(
    rf"\(?[-+]?\s*(?:{_MONEY}\s*)?[-+]?(?:[1-9]\d{{0,2}}(?:[.,'\u2019\s]\d{{3}})+|\d+)(?:[.,]\d+)?\s*(?:%|{_MONEY})?\)?"
)
_LIKE_A_DATE = re.compile(r"\d{4}-\d|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")

Numbers = tuple[NDArray[np.float64], NDArray[np.bool_]]
"""(N,) numbers, NaN for cells without a number, and (N,) mask of the cells with text."""


def numbers_of(column: "pd.Series[Any]", *, comma: bool) -> Numbers:
    """Numbers of a column, and a mask of the cells with text. True and false are 1 and 0.

    Args:
        column: the column.
        comma: whether to accept decimal commas, such as 1,5.
    """
    import pandas as pd

    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "decimal":  # decimal type of databases
        column = pd.to_numeric(column)
    elif kind == "boolean":
        column = column.astype("boolean")
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):  # also of booleans
        return column.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(column), dtype=bool)
    if not pd.api.types.is_string_dtype(column):
        return np.full(len(column), np.nan), column.notna().to_numpy(dtype=bool)
    stripped = column.astype("str").str.strip()
    missing = (column.isna() | stripped.str.lower().isin(NO_VALUE)).to_numpy(dtype=bool)
    numbers = pd.to_numeric(stripped, errors="coerce")
    if comma:
        numbers = numbers.fillna(pd.to_numeric(stripped.str.replace(",", "."), errors="coerce"))
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return values, np.isnan(values) & ~missing


def amount_among(texts: Iterable[str], present: int) -> str:
    """The first of the texts of a column, if nearly all of its `present` cells are numbers or texts such as 1,020,
    20 €, 5 % or (12), which are amounts; else empty."""
    amounts, others = [], 0
    for text in texts:
        if _AMOUNT.fullmatch(text):
            amounts.append(text)
        else:
            others += 1
    return amounts[0] if amounts and 1 - others / present >= ALMOST else ""


def texts_of(column: "pd.Series[Any]") -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
    """(N,) texts of a column without surrounding blanks, and (N,) mask of missing values.

    They are objects: an array of text would give every row the memory of the longest one.
    """
    import pandas as pd

    if pd.api.types.is_float_dtype(column):  # integers with missing values are stored as floats
        texts = pd.Series([f"{value:.15g}" for value in column.to_numpy(dtype=np.float64, na_value=np.nan)])
    else:
        texts = column.astype("str").str.strip()
    missing = column.isna().to_numpy(dtype=bool) | texts.str.lower().isin(NO_CATEGORY).to_numpy(dtype=bool)
    return np.array(texts.tolist(), dtype=object), missing


def spelling(text: str) -> str:
    """A text without differences of case and blanks, by which spellings of one name are found."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def days_of(column: "pd.Series[Any]") -> tuple[NDArray[np.float64], str]:
    """Dates as days since 1970-01-01, with the time of day as a fraction.

    Text is read as 2024-03-01, 2024-03-01 12:30, 1.3.2024, 31/3/2024 or 3/31/2024.

    Returns:
        (N,) days, NaN for missing values and other text; and an ambiguous text. If all texts can be read both with the
        day first and with the month first, and the dates differ, all days are NaN and the text is the first whose dates
        differ; otherwise it is empty.
    """
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.infer_dtype(column) in ("date", "datetime"):
        return _days(column), ""
    texts, missing = texts_of(column)
    present = ~missing & np.array([text.lower() != "none" for text in texts], dtype=bool)
    words, places = np.unique(texts[present], return_inverse=True)
    days = np.full(len(column), np.nan)
    like = [bool(_LIKE_A_DATE.match(word)) for word in words[:1000]]
    if 2 * sum(like) <= len(like):
        return days, ""
    read = {form: _days(pd.Series(words, dtype="str"), form) for form in ("ISO8601", *_forms("%d.%m.%Y"))}
    for day_first, month_first in zip(_forms("%d/%m/%Y"), _forms("%m/%d/%Y"), strict=True):
        both = [_days(pd.Series(words, dtype="str"), form) for form in (day_first, month_first)]
        differ = both[0] != both[1]
        if differ.any() and not np.isnan(both).any():
            return days, str(words[int(differ.argmax())])
        read |= {day_first: both[0], month_first: both[1]}
    days[present] = min(read.values(), key=lambda days: int(np.isnan(days).sum()))[places]
    return days, ""


def _forms(date: str) -> list[str]:
    return [f"{date}{time}" for time in ("", " %H:%M", " %H:%M:%S")]


def _days(dates: "pd.Series[Any]", form: str | None = None) -> NDArray[np.float64]:
    import pandas as pd

    since = pd.to_datetime(dates, format=form, utc=True, errors="coerce") - pd.Timestamp(0, tz="UTC")
    return np.asarray(since / pd.Timedelta(days=1), dtype=np.float64)


def date_of(day: float) -> str:
    """ISO date of a number of days since 1970-01-01, such as 2024-03-01 for 19783."""
    return np.datetime_as_string(np.datetime64(int(np.floor(day)), "D"))
