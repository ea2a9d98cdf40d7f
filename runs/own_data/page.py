"""The page about a result on a user's own data: one HTML file that needs no other file and no network."""

import base64
import io
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from clustering.files.tables import as_text
from runs.cache import Store
from runs.config.groups import Choice, comment
from runs.own_data.table_checks import page_beside
from runs.own_data.table_columns import NAMED, TableColumns, named
from runs.report.rendering import environment
from runs.report.sections import Column, Item, Section, Table
from runs.stages.lineage import short
from runs.storage.disk import write_text
from runs.storage.together import Output, write_together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from clustering.datasets.table import Contents

PIXELS = 150  # per inch of a picture


@dataclass(frozen=True)
class Command:
    """A command line, from a verb of `transduce` and its settings."""

    verb: str
    settings: Sequence[str]

    def __str__(self) -> str:
        return self.changed()

    def changed(self, **values: str) -> str:
        """Return the command line with other values of some keys; a changed command does not keep the output file."""
        dropped = tuple(f"{name}=" for name in (*values, *(["output"] if values else [])))
        kept = [setting for setting in self.settings if not setting.startswith(dropped)]
        return shlex.join(["transduce", self.verb, *kept, *(f"{name}={value}" for name, value in values.items())])


@dataclass(frozen=True)
class Written:
    """The output files of a result; of a table, with the summary of its columns."""

    rows: Path
    page: Path
    columns: TableColumns | None = None

    def record(self) -> dict[str, Any]:
        """Return the record as a dictionary for JSON."""
        columns = {} if self.columns is None else {"columns": self.columns.record()}
        return {"rows": str(self.rows), "page": str(self.page), **columns}


@dataclass(frozen=True, eq=False, kw_only=True)
class Page:
    """A page.

    Attributes:
        title: its title.
        introduction: paragraphs before the sections.
        warnings: what may be wrong.
        sections: its sections.
        method: displayed name of the method.
        command: command line of this result.
        facts: technical details by name.
    """

    title: str
    introduction: Sequence[str]
    sections: Sequence[Section]
    method: str
    command: Command
    facts: Mapping[str, str]
    warnings: Sequence[str] = ()

    def html(self) -> str:
        """Render the page; all text is escaped."""
        return environment().get_template("own_data.html").render(page=self)

    def write(self, rows: Path, write_rows: Callable[[Path], object], store: Store, *others: Output) -> Written:
        """Write the file of rows and others, and the page beside the rows: all of them, or none.

        Args:
            rows: path of the rows.
            write_rows: function that writes the rows to a path.
            store: the store, which may contain the folder.

        Raises:
            InputError: the disk is full or not writable.
        """
        place, html = page_beside(rows), as_utf8(self.html())
        rows.parent.mkdir(parents=True, exist_ok=True)
        page = Output(place, "output=FILE", lambda path: write_text(path, html))
        write_together([Output(rows, "output=FILE", write_rows), page, *others])
        return Written(rows, place)


def method_name(choice: Choice) -> str:
    """Return the displayed name of a method, with its description."""
    about = comment(choice.group, choice.name).rstrip(".")
    return f"{short(choice)}, {about}" if about else short(choice)


def as_utf8(text: str) -> str:
    """Escape bytes of file names that are not UTF-8: caf\\udce9.png."""
    return text.encode("utf-8", "backslashreplace").decode()


def data_url(content: bytes, kind: str) -> str:
    """Return a picture as a URL that contains it. `kind`: png or jpeg."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def picture(figure: "Figure") -> str:
    """Return a figure of matplotlib as a data URL; equal figures give equal text."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=PIXELS, metadata={"Software": "transduce"})
    return data_url(stream.getvalue(), "png")


def of_frame(frame: pd.DataFrame, caption: str = "", *, text: Collection[str] = ()) -> Table:
    """Return a table of a page; columns but the first are numbers, aligned to the right, if not named in `text`."""
    columns = [Column(str(name), place > 0 and name not in text) for place, name in enumerate(frame.columns)]
    return Table(columns, [list(map(str, row)) for row in frame.itertuples(index=False)], caption)


def columns_section(contents: "Contents") -> Section:
    """Return the section about the use of the columns of a table."""
    columns = TableColumns.of(contents)
    lines = [f"Used as {kind}: {named(names)}." for kind, names in columns.used.items()]
    if columns.filled:
        filled = named([f"{count:,} of {name}" for name, count in columns.filled.items()])
        lines.append(f"Values that were missing and were filled in: {filled}.")
    if columns.dropped:
        lines.append(f"{columns.dropped:,} rows without a value: in the file without a cluster, and not on this page.")
    for why, names in list(columns.unused.items())[:NAMED]:
        lines.append(f"Not used: {named(names)} ({why}).")
    ask = Item("To use other columns, name all that are to be used:", "columns=a,b,c")
    return Section("The columns", items=[*map(Item, lines), ask])


def csv_of(frame: pd.DataFrame, digits: int = 6) -> str:
    """Return a frame as CSV. The first column has names of files; texts that a spreadsheet would read as formulas are
    escaped: the file `=1.png` becomes `./=1.png`, and the class `=1` becomes `'=1`."""
    shown = frame.copy()
    for place, name in enumerate(frame.columns):
        if not pd.api.types.is_numeric_dtype(frame[name]):
            shown[name] = [
                as_text(cell, "./" if not place else "'") if isinstance(cell, str) else "" for cell in frame[name]
            ]
    shown.columns = pd.Index([as_text(str(name)) for name in frame.columns])
    return as_utf8(shown.to_csv(index=False, float_format=f"%.{digits}f", lineterminator="\n"))


def number(value: float) -> str:
    """Return a number with three digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share in percent; 0 % and 100 % only if exact, - for NaN."""
    if share != share:
        return "-"
    if 0 < share <= 0.005 or 0.995 <= share < 1:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"{100 * share:.0f} %"


def weight_name(weight: float) -> str:
    """Return a weight as text for the command line, with four digits unless it is an integer."""
    if weight % 1 == 0 and weight < 1e15:
        return f"{weight:.0f}"
    short = float(f"{weight:.4g}")
    return f"{short:.0f}" if 1000 <= short < 1e15 else f"{short:g}"
