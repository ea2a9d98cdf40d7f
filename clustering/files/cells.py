"""Interpretation of the cells of a column as numbers, dates or words."""

import re
import unicodedata
from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

NO_CATEGORY = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "?", "-"))
NO_VALUE = NO_CATEGORY | {"none"}  # "none" can be a category like red or blue
ALMOST = 0.9  # if at least this share of the values of a column has one type, the others count as errors
_MONEY = r"(?:[$€£¥₹]|[A-Z]{2}\$|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|kr|zł)"
_UNIT = r"(?:\s[mglhsKVW]|\s*(?:[kcmµμ]?g|[kcmµμn]m|m[²³23]|[cm]l|[kMGT]i?B|k?Wh|min|ms|°[CF]?|km/h|kcal|lbs?))"
_AMOUNT = re.compile(
    rf"\(?[-+\u2212]?\s*(?:{_MONEY}\s*)?[-+]?(?:[1-9]\d{{0,2}}(?:[.,'\u2019\s]\d{{3}})+|\d+)(?:[.,]\d+)?"
    rf"(?:\s*%|\s*{_MONEY}|{_UNIT})?\)?"
)
_LIKE_A_DATE = re.compile(r"\d{4}-\d|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")


class Cells:
    """The cells of a column, interpreted when they are asked for."""

    def __init__(self, column: "pd.Series[Any]", *, points_begin_decimals: bool = True) -> None:
        """Interpret a column.

        Args:
            column: the column.
            points_begin_decimals: whether the mark of decimals is known to be a point; otherwise commas are accepted,
                such as 1,5.
        """
        self.column, self._points = column, points_begin_decimals

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """(N,) numbers, NaN for cells without a number. True and false are 1 and 0."""
        import pandas as pd

        column = self.column
        kind = pd.api.types.infer_dtype(column, skipna=True)
        if kind == "decimal":  # decimal type of databases
            column = pd.to_numeric(column)
        elif kind == "boolean":
            column = column.astype("boolean")
        if pd.api.types.is_string_dtype(column):
            stripped = column.astype("str").str.strip()
            column = pd.to_numeric(stripped, errors="coerce")
            if not self._points:
                column = column.fillna(pd.to_numeric(stripped.str.replace(",", "."), errors="coerce"))
        elif not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_complex_dtype(column):
            return np.full(len(column), np.nan)
        return column.to_numpy(dtype=np.float64, na_value=np.nan)  # also of booleans

    @cached_property
    def is_text(self) -> NDArray[np.bool_]:
        """(N,) mask of the cells with text, or another value that is no number."""
        rest = np.isnan(self.numbers) & self.column.notna().to_numpy(dtype=bool)
        rest[rest] = ~_among(self.texts[rest], NO_VALUE) if rest.any() else False
        return rest

    @cached_property
    def texts(self) -> NDArray[np.object_]:
        """(N,) texts without surrounding blanks.

        They are objects: an array of text would give every row the memory of the longest one.
        """
        import pandas as pd

        if pd.api.types.is_float_dtype(self.column):  # integers with missing values are stored as floats
            values = self.column.to_numpy(dtype=np.float64, na_value=np.nan).tolist()
            return np.array([f"{value:.15g}" for value in values], dtype=object)
        return np.array(self.column.astype("str").str.strip().tolist(), dtype=object)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """(N,) mask of the cells without a value."""
        return self.column.isna().to_numpy(dtype=bool) | _among(self.texts, NO_CATEGORY)

    def shown(self, row: int) -> str:
        """The content of a cell in quotes, shortened, for messages."""
        return repr(str(self.column.iloc[row])[:40])

    @cached_property
    def ambiguous(self) -> str:
        """A value such as 1.020 or 1,020 whose mark may group thousands or begin decimals, if no other value of the
        column decides it; else empty."""
        import pandas as pd

        if not pd.api.types.is_string_dtype(self.column):
            return ""
        texts = [str(text) for text in self.texts.tolist()]
        if self._points and not any(re.fullmatch(r"[-+]?[1-9]\d\d", text) for text in texts):
            return ""  # but 980 beside 1.020 is doubtful, although points are known to begin decimals
        for mark in "." if self._points else ".,":
            marked = [text for text in texts if mark in text]
            if marked and all(re.fullmatch(rf"[-+]?[1-9]\d{{0,2}}(\{mark}\d{{3}})+", text) for text in marked):
                return str(marked[0])
        return ""

    @cached_property
    def amount(self) -> str:
        """The first text such as 1,020, 20 €, 5 kg, 5 % or (12), if nearly all values are numbers or such amounts; else
        empty."""
        texts = self.texts[self.is_text].tolist()
        amounts = [text for text in texts if _AMOUNT.fullmatch(text)]
        present = (~np.isnan(self.numbers)).sum() + len(texts)
        return str(amounts[0]) if amounts and 1 - (len(texts) - len(amounts)) / present >= ALMOST else ""

    def days(self) -> tuple[NDArray[np.float64], str]:
        """Dates as days since 1970-01-01, with the time of day as a fraction.

        Text is read as 2024-03-01, 2024-03-01 12:30, 1.3.2024, 31/3/2024 or 3/31/2024.

        Returns:
            (N,) days, NaN for missing values and other text; and an ambiguous text. If all texts can be read both with
            the day first and with the month first, and the dates differ, all days are NaN and the text is the first
            whose dates differ; otherwise it is empty.
        """
        import pandas as pd

        column = self.column
        if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.infer_dtype(column) in ("date", "datetime"):
            return _days(column), ""
        present = ~self.missing & ~_among(self.texts, NO_VALUE)
        words, places = np.unique(self.texts[present], return_inverse=True)
        days = np.full(len(column), np.nan)
        like = [bool(_LIKE_A_DATE.match(word)) for word in words[:1000]]
        if 2 * sum(like) <= len(like):
            return days, ""
        texts = pd.Series(words, dtype="str")
        read = [_days(texts, form) for form in ("ISO8601", *_forms("%d.%m.%Y"))]
        for forms in zip(_forms("%d/%m/%Y"), _forms("%m/%d/%Y"), strict=True):
            both = [_days(texts, form) for form in forms]
            differ = both[0] != both[1]
            if differ.any() and not np.isnan(both).any():
                return days, str(words[int(differ.argmax())])
            read += both
        days[present] = min(read, key=lambda days: int(np.isnan(days).sum()))[places]
        return days, ""


def spelling(text: str) -> str:
    """A text without differences of case and blanks, by which spellings of one name are found."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _among(texts: NDArray[np.object_], words: Collection[str]) -> NDArray[np.bool_]:
    return np.array([str(text).lower() in words for text in texts.tolist()], dtype=bool)


def _forms(date: str) -> list[str]:
    return [f"{date}{time}" for time in ("", " %H:%M", " %H:%M:%S")]


def _days(dates: "pd.Series[Any]", form: str | None = None) -> NDArray[np.float64]:
    import pandas as pd

    since = pd.to_datetime(dates, format=form, utc=True, errors="coerce") - pd.Timestamp(0, tz="UTC")
    return np.asarray(since / pd.Timedelta(days=1), dtype=np.float64)


def date_of(day: float) -> str:
    """ISO date of a number of days since 1970-01-01, such as 2024-03-01 for 19783."""
    return np.datetime_as_string(np.datetime64(int(np.floor(day)), "D"))
