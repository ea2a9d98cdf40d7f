"""Interpretation of the cells of a column as numbers, dates or words."""

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

NO_VALUE = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-"))
NO_CATEGORY = NO_VALUE - {"none"}  # "none" can be a category like red or blue
ALMOST = 0.9  # if at least this share of the values of a column has one type, the others count as errors
_LIKE_A_DATE = re.compile(r"\d{4}-\d|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_TIMES = ("", " %H:%M", " %H:%M:%S")

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
    if pd.api.types.is_complex_dtype(column):
        return np.full(len(column), np.nan), np.ones(len(column), dtype=bool)
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers, np.zeros(len(numbers), dtype=bool)
    if not pd.api.types.is_string_dtype(column):
        return np.full(len(column), np.nan), column.notna().to_numpy(dtype=bool)
    stripped = column.astype("str").str.strip()
    missing = (column.isna() | stripped.str.lower().isin(NO_VALUE)).to_numpy(dtype=bool)
    numbers = pd.to_numeric(stripped, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    text = np.isnan(numbers) & ~missing
    if comma and text.any():
        point = pd.to_numeric(stripped[text].str.replace(",", "."), errors="coerce")
        numbers[text] = point.to_numpy(dtype=np.float64, na_value=np.nan)
        text = np.isnan(numbers) & ~missing
    return numbers, text


def words_of(column: "pd.Series[Any]") -> tuple[NDArray[np.int64], list[str]] | None:
    """The words of a column: (N,) index of the word of each row, -1 for missing values; and the sorted distinct words,
    without surrounding blanks. None for columns of other types, such as lists."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if pd.api.types.infer_dtype(column, skipna=True) not in ("string", "boolean", "integer", "empty", "mixed-integer"):
        return None
    codes, cells = pd.factorize(column.to_numpy(dtype=object))
    stripped = [str(cell).strip() for cell in cells]
    words = sorted({word for word in stripped if word.lower() not in NO_CATEGORY})
    place = {word: number for number, word in enumerate(words)}
    places = np.array([*(place.get(word, -1) for word in stripped), -1], dtype=np.int64)
    return places[codes], words


def days_of(texts: NDArray[Any]) -> tuple[NDArray[np.float64], str]:
    """Dates as days since 1970-01-01, with the time of day as a fraction. Supported formats are 2024-03-01,
    2024-03-01 12:30, 1.3.2024, 31/3/2024 and 3/31/2024.

    Args:
        texts: (M,) texts without surrounding blanks.

    Returns:
        (M,) days, NaN for texts that are not dates; and an ambiguous text. If all texts can be read both with the day
        first and with the month first, and the dates differ, all days are NaN and the text is the first whose dates
        differ; otherwise it is empty.
    """
    import pandas as pd

    nothing = np.full(len(texts), np.nan)
    like = [bool(_LIKE_A_DATE.match(text)) for text in texts[:1000]]
    if 2 * sum(like) <= len(like):
        return nothing, ""

    def read(form: str) -> NDArray[np.float64]:
        dates = pd.to_datetime(pd.Series(texts, dtype="str"), format=form, errors="coerce", utc=True)
        return days(dates)

    forms = {form: read(form) for form in ("ISO8601", *(f"%d.%m.%Y{time}" for time in _TIMES))}
    for time in _TIMES:
        of_day, of_month = forms[f"%d/%m/%Y{time}"], forms[f"%m/%d/%Y{time}"] = (
            read(f"%d/%m/%Y{time}"),
            read(f"%m/%d/%Y{time}"),
        )
        differ = of_day != of_month
        if differ.any() and not np.isnan([of_day, of_month]).any():
            return nothing, str(texts[int(differ.argmax())])
    best = min(forms, key=lambda form: int(np.isnan(forms[form]).sum()))
    return forms[best], ""


def days(dates: "pd.Series[Any]") -> NDArray[np.float64]:
    """Dates as days since 1970-01-01, NaN for missing dates."""
    import pandas as pd

    timestamps = pd.to_datetime(dates, utc=True, errors="coerce")
    since = (timestamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return np.asarray(since, dtype=np.float64)


def date_of(day: float) -> str:
    """ISO date of a number of days since 1970-01-01, such as 2024-03-01 for 19783."""
    return np.datetime_as_string(np.datetime64(int(np.floor(day)), "D"))
