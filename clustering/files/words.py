"""Words in text files: one a line, or a column of a CSV."""

import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from clustering.files.regular import text_of
from clustering.files.tables import csv_layout
from clustering.foundation.errors import InputError, unknown

_CSV = (".csv", ".tsv")
ENDINGS = (".txt", *_CSV)


def read_words(path: Path, headers: Sequence[str], column: str | None = None, option: str | None = None) -> list[str]:
    """The cells of a column of a .csv or .tsv, or the lines of another file, without surrounding blanks.

    A CSV with several columns has a header line. Its column is `column`, or the one whose name is among `headers`. A
    CSV with one column may have such a header. Empty lines at the end are ignored.

    Args:
        path: the file, in UTF-8.
        headers: names of the column.
        column: name of the column; None: chosen by `headers`.
        option: how a user gives `column`, for messages; None: not at all.

    Raises:
        InputError: the file is missing, empty, not text in UTF-8, has an empty line between others, or no column, or
            several, that could be meant.
    """
    place = first = 0  # of the column, and of the first line with a word
    if path.suffix.lower() in _CSV:
        rows = [[cell.strip() for cell in cells] for _, cells in csv_lines(path)]
        if rows:
            place, first = _column(path, rows[0], headers, column, option)
    elif column is not None:
        raise InputError(f"{path}: has no columns, so {option}={column} has no effect; omit it")
    else:
        rows = [[line.strip()] for line in text_of(path).splitlines()]
    words = [row[place] if place < len(row) else "" for row in rows[first:]]
    while words and not words[-1]:
        words.pop()
    if not words:
        raise InputError(f"{path}: has no lines{' below its header' * first}; write one name a line")
    if "" in words:
        raise InputError(f"{path}: line {first + words.index('') + 1} is empty; remove it, or fill it in")
    return words


def csv_lines(path: Path) -> list[tuple[int, list[str]]]:
    """The number and the cells of each line of a CSV file, separated by commas, semicolons or tabs.

    Blank lines above the header, and a line such as `sep=;`, which names the separator, are left out.

    Args:
        path: the file, in UTF-8.

    Raises:
        InputError: the file is missing, not text in UTF-8, or no CSV.
    """
    text = text_of(path)
    delimiter, above = csv_layout(text, ",;\t")
    try:
        reader = csv.reader(list(io.StringIO(text, newline=""))[above:], delimiter=delimiter)
        return [(above + reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise InputError(f"{path}: cannot be read as CSV ({error}); save it again as CSV UTF-8") from error


def plain_name(name: str) -> str:
    """A name as other systems and spreadsheets write it: accents in one character, small letters, / between folders,
    without ./, and 0.0 or 0,00 for the row 0."""
    name = unicodedata.normalize("NFC", name.strip().casefold()).replace("\\", "/").removeprefix("./")
    return re.split("[.,]", name)[0] if re.fullmatch(r"\d+[.,]0{1,2}", name) else name


def _column(
    path: Path, header: list[str], headers: Sequence[str], column: str | None, option: str | None
) -> tuple[int, int]:
    """Number of the column, and of the first line with a word."""
    if column is not None:
        if column not in header:
            raise InputError(f"{path}: {unknown('column', column, header)}")
        return header.index(column), 1
    named = [name for name in header if name.lower() in headers]
    if len(named) == 1:
        return header.index(named[0]), 1
    if named or len(header) > 1:
        remedy = f"call it {headers[0]}" if option is None else f"choose it with {option}=NAME"
        raise InputError(
            f"{path}: which of the columns {', '.join(named or header)} is meant? Keep only that one, or {remedy}"
        )
    return 0, 0
