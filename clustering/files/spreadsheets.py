"""Escaping of text that a spreadsheet would evaluate as a formula."""

import re

_FORMULA = re.compile(r"[=@\t\r\n]|[+-](?![\d.]+$)")  # start of a formula, excluding numbers


def as_text(cell: str, mark: str = "'") -> str:
    """A cell that spreadsheets do not evaluate: `=1+1` becomes `'=1+1`; numbers, such as -1, are unchanged.

    It is for cells that are added to a table; existing cells of a user's table are not changed.

    Args:
        cell: the text.
        mark: prefix of a formula; `./` for file names, which then still name the same file.
    """
    return f"{mark}{cell}" if _FORMULA.match(cell) else cell
