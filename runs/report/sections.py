"""What a page consists of, in the report and about a user's own data: sections of text, lists, tables and pictures.

All text is escaped when it is rendered; `Markup` is kept.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

if TYPE_CHECKING:
    from pandas import DataFrame


class Column(NamedTuple):
    """A column of a table; numbers are aligned to the right."""

    name: str
    number: bool = True


class Table(NamedTuple):
    """A table on a page. With `folded`, the reader opens it by these words."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Markup]]
    caption: str | Markup = ""
    folded: str = ""


class Item(NamedTuple):
    """A point of a list, and a command line to copy."""

    words: str | Markup
    command: str = ""


class Shown(NamedTuple):
    """A classified picture, or row of features."""

    source: str  # its thumbnail as a data URL; empty if there is none
    name: str
    certain: str = ""  # confidence of a cluster; empty for a class, whose probabilities are not calibrated
    second: str = ""  # the second most likely class
    meant: str = ""  # the class of its folder, if different from the predicted one


class Section(NamedTuple):
    """A section of a page: what is given of text, list, picture (an address, with words about it), tables, other HTML,
    and classified pictures. `anchor` is its id; by default its number."""

    heading: str
    text: Sequence[str | Markup] = ()
    items: Sequence[Item] = ()
    picture: str = ""
    about: str | Markup = ""
    tables: Sequence[Table] = ()
    body: Markup = Markup("")
    gallery: Sequence[Shown] = ()
    anchor: str = ""


def table_of(frame: "DataFrame", caption: str | Markup = "", *, text: Collection[str] = (), folded: str = "") -> Table:
    """A table of a page; columns but the first are numbers, aligned to the right, if not named in `text`."""
    columns = [Column(str(name), place > 0 and name not in text) for place, name in enumerate(frame.columns)]
    rows = [[cell if isinstance(cell, str) else str(cell) for cell in row] for row in frame.itertuples(index=False)]
    return Table(columns, rows, caption, folded)
