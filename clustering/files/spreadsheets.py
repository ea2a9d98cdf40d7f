"""Text that a spreadsheet would calculate, written so that it stays text."""

import re

_FORMULA = re.compile(r"[=@\t\r\n]|[+-](?![\d.]+$)")  # how begins what a spreadsheet calculates; numbers are none


def as_text(cell: str, mark: str = "'") -> str:
    """A cell that is no formula to a spreadsheet: `=1+1` becomes `'=1+1`; numbers, such as -1, stay.

    It is for cells that are added to a table. What a person's own table has stays as it is.

    Args:
        mark: what is put before a formula; `./` before the name of a file, which it leaves a name of that file.
    """
    return f"{mark}{cell}" if _FORMULA.match(cell) else cell
