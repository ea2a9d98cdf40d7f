"""The page about a result on a user's own data: one HTML file that needs no other file and no network."""

import shlex
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from clustering.datasets.table import Contents
from runs.cache import Store
from runs.config.groups import Choice, comment
from runs.own_data.plain_words import percent
from runs.own_data.table_checks import page_beside
from runs.own_data.table_columns import TableColumns
from runs.report.rendering import environment
from runs.stages.lineage import short
from runs.storage.disk import write_text
from runs.storage.together import Output, write_together


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


def method_name(choice: Choice) -> str:
    """Return the displayed name of a method, with its description."""
    about = comment(choice.group, choice.name).rstrip(".")
    return f"{short(choice)}, {about}" if about else short(choice)


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
    """A page; a subclass adds what its template shows.

    Attributes:
        method: displayed name of the method.
        command: command line of this result.
        output: name of the file with the result of each row or picture.
        facts: technical details by name.
    """

    template: ClassVar[str]

    method: str
    command: Command
    output: str
    facts: Mapping[str, str] = field(default_factory=dict)

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return the values for the template, beside the attributes."""

    def html(self) -> str:
        """Render the page."""
        values: dict[str, Any] = {"page": self, "percent": percent, **self.content()}
        return environment().get_template(self.template).render(values)

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


def as_utf8(text: str) -> str:
    """Escape bytes of file names that are not UTF-8: caf\\udce9.png."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, eq=False, kw_only=True)
class TablePage(Page):
    """A page about the clusters of a table, for readers without knowledge of statistics.

    Attributes:
        contents: the table.
        clusters: requested number of clusters.
    """

    contents: Contents
    clusters: int

    def write(self, rows: Path, write_rows: Callable[[Path], object], store: Store, *others: Output) -> Written:
        return replace(super().write(rows, write_rows, store, *others), columns=TableColumns.of(self.contents))

    def content(self) -> dict[str, Any]:
        return {
            "name": self.contents.file.path.name,
            "columns": self.contents.columns,
            "table_columns": TableColumns.of(self.contents),
        }
