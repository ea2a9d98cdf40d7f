"""The page about a result on a user's own data: one HTML file that needs no other file and no network."""

import base64
import io
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs.cache import Store
from runs.config.groups import Choice, comment
from runs.own_data.table_checks import page_beside
from runs.own_data.table_columns import TableColumns
from runs.report.rendering import environment
from runs.report.sections import Section
from runs.stages.lineage import short
from runs.storage.disk import write_text
from runs.storage.together import Output, write_together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
