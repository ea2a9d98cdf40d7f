"""The papers' tables, figures, errata and causes of differences: the files of `runs/published/`, checked by pydantic.

    table = published_table("thesis/4.1")
    [(cell.published, cell.corrected) for cell in table.cells if cell.row == "LaplacianShot"]  # ResNet-18: 72.11, 70.74

How a cell is run here is in `configs/table/`. `runs/published/table.schema.json` describes the files of tables for
editors. Every error names the file and the row.
"""

import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass as plain
from dataclasses import field, replace
from functools import cache
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clustering.foundation.errors import InputError, unknown
from runs.tables.table import Cell

FOLDER = importlib.resources.files("runs") / "published"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the loader in C, if available, takes a tenth of the time
STRICT = ConfigDict(extra="forbid")
FOR_EDITORS = ConfigDict(extra="forbid", use_attribute_docstrings=True)  # the schema has the docstrings of fields
NO_NUMBER = ("-", "N/A", "")  # printed in place of a number; null in a file means a dash
NUMBER, BESIDE = r"(?P<about>~?)(?P<value>-?\d+(?:\.\d+)?(?:e-?\d+)?)", r"(?P<beside>\d+(?:\.\d+)?)"
FORMS = {  # by the interval of the table: the form of a number, and an example
    "none": (re.compile(f"{NUMBER}(?P<beside>)"), "49.61"),
    "ci95": (re.compile(f"{NUMBER}(?: ± {BESIDE})?"), "49.61 ± 0.92"),
    "std": (re.compile(rf"{NUMBER}(?: \({BESIDE}\))?"), "62 (3.5)"),
}
Text = Annotated[str, Field(min_length=1)]
Kind = Literal["own", "rerun", "quoted", "unclear"]
"""Origin of a number: the work's own method, a rival run by the authors, copied from elsewhere, or unclear."""
T = TypeVar("T")


@dataclass(frozen=True, config=FOR_EDITORS)
class PublishedColumn:
    """One column. A printed column of two metrics is two columns that differ in `metric`."""

    name: str
    """The heading."""
    metric: str
    """Accuracy, nmi, acc_hungarian, ari, seconds, objective ..., named as in the record if it is there."""
    better: Literal["higher", "lower"] | None
    """None for descriptions, such as a number of samples."""
    group: str = ""
    """The heading above several columns; "" without one."""
    unit: Literal["", "%", "s"] = ""
    kind: Kind | None = None
    """Origin of its numbers, if columns are methods."""


@dataclass(frozen=True, config=FOR_EDITORS)
class PublishedRow:
    """One row."""

    name: str
    """The method, or what is described."""
    kind: Kind | None = None
    """Origin of its numbers; None if the column says it."""
    group: str = ""
    """What several rows have in common, such as the network; "" without one."""
    cite: str = ""
    """The source that the work cites for it."""
    note: str = ""
    """A remark for the reader."""
    column_groups: tuple[str, ...] = ()
    """Groups of columns in which it has cells; empty for all."""
    values: tuple[str | None, ...] = ()
    """One number for each column that it has, digits as printed; None for a dash."""


@dataclass(frozen=True, config=STRICT)
class Place:
    """Cells of a table, or figures. A cell belongs to it if every list that is not empty names its row or column."""

    table: str = ""
    row_groups: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    column_groups: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The named groups of rows, rows, groups of columns, columns and metrics."""
        return self.row_groups, self.rows, self.column_groups, self.columns, self.metrics

    def holds(self, cell: Cell) -> bool:
        """Whether a cell of its published table belongs to it."""
        return all(not names or name in names for names, name in zip(self.names, cell.place, strict=True))


@dataclass(frozen=True, config=STRICT)
class Erratum:
    """A known error of the print, or a caveat."""

    id: str  # "E01" and so on; "C1" and so on for caveats
    severity: Literal["high", "medium", "low", "caveat"]  # its importance for comparisons
    text: str  # what is wrong, why, and what to do about it
    where: tuple[Place, ...]
    target: bool = True  # False if runs must not be compared with the numbers


@dataclass(frozen=True, config=STRICT)
class Cause:
    """Why results of this project differ from the print, for cells whose verdict is above or below."""

    id: str  # "D01" and so on
    cause: Text  # what was found by changing one thing; "unknown" if it was looked for and not found
    evidence: Text  # the page or the command that shows it
    where: Annotated[tuple[Place, ...], Field(min_length=1)]

    def holds(self, table: str, cell: Cell) -> bool:
        """Whether it is about this cell of a published table."""
        return any(place.table == table and place.holds(cell) for place in self.where)

    def __str__(self) -> str:
        return f"cause of the difference: {self.cause.rstrip('.')} ({self.evidence})"


@dataclass(frozen=True, config=STRICT)
class PublishedFigure:
    """One figure of a work."""

    work: str
    number: str  # as printed
    data_like: bool  # whether it is drawn from data or an equation, so that it can be drawn again; else a sketch
    shows: str  # in our words
    axes: str = ""  # the axes and panels; "" for sketches
    note: str = ""  # a remark for the reader

    @property
    def name(self) -> str:
        """Name for `transduce figure`: "thesis/4.1"."""
        return f"{self.work}/{self.number}"


@dataclass(frozen=True, config=FOR_EDITORS)
class Correction:
    """Numbers that replace the printed ones of a row as targets."""

    row: str
    values: tuple[str | None, ...]
    """None keeps a printed one."""
    source: str
    """The table that prints them."""
    erratum: str
    """That says why."""
    group: str = ""


@dataclass(frozen=True, config=FOR_EDITORS)
class TableFile:
    """The content of the file of a table."""

    caption: Text
    """What it shows, in our words."""
    columns: tuple[PublishedColumn, ...]
    """In printed order, as the rows."""
    rows: tuple[PublishedRow, ...]
    protocol: Mapping[str, str] = field(default_factory=dict)
    """How the numbers were made, as far as the work says."""
    interval: Literal["ci95", "std", "none"] = "none"
    """Beside the values: half-widths of 95 % intervals, or deviations."""
    over: Literal["tasks", "runs"] | None = None
    """What the interval is taken over; None if the work does not say."""
    tasks: Annotated[int, Field(ge=1)] | None = None
    """Behind a value, if there are any and the work says how many."""
    runs: Annotated[int, Field(ge=1)] | None = None
    """Likewise."""
    remark: str = ""
    """How the table was read from its source, if that was unclear."""
    corrected: tuple[Correction, ...] = ()


@plain(frozen=True, kw_only=True)
class PublishedTable(TableFile):
    """One table of a work."""

    name: str  # for `transduce table`: "thesis/4.1", "slk_fewshot/II"
    cells: tuple[Cell, ...]  # row by row; without a number for "-", "N/A" or nothing
    errata: tuple[str, ...]  # ids of the errata about it or its cells

    @property
    def numbers(self) -> list[Cell]:
        """The cells with a number."""
        return [cell for cell in self.cells if cell.printed]

    @property
    def kind(self) -> Literal["results", "description", "formulas"]:
        """Results of methods, a description of data or definitions, or formulas without any number."""
        if not self.numbers:
            return "formulas"
        return "results" if any(column.better for column in self.columns) else "description"


def works() -> dict[str, str]:
    """Titles of the works, by their short names."""
    return {work: content["title"] for work, content in read_published("works.yaml").items()}


def published_names() -> list[str]:
    """Names of all tables, "thesis/1.1" and so on, in printed order."""
    return [f"{work}/{number}" for work, of in read_published("works.yaml").items() for number in of["tables"]]


@cache
def published_table(name: str) -> PublishedTable:
    """The table of that name.

    Raises:
        InputError: for an unknown name, with the nearest right one.
    """
    if name not in published_names():
        raise unknown("published table", name, published_names())
    return table_from(name, read_published(f"{name}.yaml"))


@cache
def errata() -> Mapping[str, Erratum]:
    """All errata by id."""
    return _by_id(Erratum, "errata.yaml")


@cache
def causes() -> Mapping[str, Cause]:
    """All causes of differences by id."""
    return _by_id(Cause, "causes.yaml")


def _by_id(kind: type[T], file: str) -> dict[str, T]:
    where = f"runs/published/{file}"
    return {key: build(kind, {**entry, "id": key}, f"{where}, {key}") for key, entry in read_published(file).items()}


@cache
def figures() -> tuple[PublishedFigure, ...]:
    """All figures, in printed order."""
    file = "figures.yaml"
    entries = [{"work": work, **entry} for work, of_work in read_published(file).items() for entry in of_work]
    return tuple(build(PublishedFigure, entry, f"runs/published/{file}, {entry['work']}") for entry in entries)


@cache
def read_published(file: str) -> dict[str, Any]:
    """The content of a file of `runs/published/`."""
    return read_yaml(FOLDER / file, f"runs/published/{file}")


def read_yaml(path: Traversable, where: str) -> dict[str, Any]:
    """The content of a YAML file of the project, with its settings as they are written."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{where}: not a readable YAML file: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{where}: must hold lines of the form `key: value`")
    return content


def table_schema() -> dict[str, Any]:
    """The JSON schema of the file of a table, which `runs/published/table.schema.json` has for editors."""
    return {"title": "A table as a paper prints it", **TypeAdapter(TableFile).json_schema()}


def build(kind: type[T], content: Any, where: str) -> T:
    """An object from its fields in a file; lists become tuples.

    Raises:
        InputError: an unknown or missing key, or an invalid value; says where, as in "rows, 3, kind".
    """
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        wrong = error.errors()[0]
    keys = (str(key + 1) if isinstance(key, int) else key for key in wrong["loc"])
    is_key = wrong["type"] in ("missing", "unexpected_keyword_argument")  # the key is wrong, not its value
    said = {"unexpected_keyword_argument": "unknown key"}.get(wrong["type"], wrong["msg"].lower())
    raise InputError(f"{', '.join([where, *keys])}: {said}" + ("" if is_key else f", not {wrong['input']!r}"))


def table_from(name: str, content: Any) -> PublishedTable:
    """A table from the content of its file; what cannot be read is an InputError with the file and the row.

    Whether errata, causes and corrections are about cells and sources that exist is checked by the tests.
    """
    file = f"runs/published/{name}.yaml"
    read = build(TableFile, content, file)
    places = [(erratum, place) for erratum in errata().values() for place in erratum.where if place.table == name]
    corrected = {(entry.group, entry.row): entry for entry in read.corrected}
    cells = []
    for r, row in enumerate(read.rows):
        where = f"{file}, row {r + 1} ({row.name})"
        columns = [one for one in read.columns if not row.column_groups or one.group in row.column_groups]
        if len(row.values) != len(columns):
            raise InputError(f"{where}: {len(row.values)} values for {len(columns)} columns; null is a dash")
        better = corrected.get((row.group, row.name))
        targets = better.values if better else [None] * len(columns)
        for column, text, target in zip(columns, row.values, targets, strict=True):
            cell = Cell(
                row=row.name,
                row_group=row.group,
                row_kind=row.kind or "",
                row_note=row.note,
                column=column.name,
                column_group=column.group,
                metric=column.metric,
                unit=column.unit,
                better=column.better,
                kind=row.kind or column.kind or "",
            )
            if text is not None and text not in NO_NUMBER:
                if not cell.kind:
                    raise InputError(f"{where}: give the row or its columns a kind ({', '.join(get_args(Kind))})")
                own = [one for one, place in places if any(place.names) and place.holds(cell)]
                (number, width), (fixed, fixed_width) = (_number(one, read.interval, where) for one in (text, target))
                cell = replace(
                    cell,
                    printed=text,
                    published=number,
                    published_half_width=width,
                    remark="printed as approximate" * text.startswith("~"),
                    errata=tuple(erratum.id for erratum in own),
                    corrected=fixed,
                    corrected_half_width=fixed_width,
                    corrected_source=better.source if better and target else "",
                    target=all(erratum.target for erratum in own),
                )
            cells.append(cell)
    cited = tuple(dict.fromkeys(erratum.id for erratum, _ in places))
    return PublishedTable(**vars(read), name=name, cells=tuple(cells), errata=cited)


def _number(text: str | None, interval: str, where: str) -> tuple[float | None, float | None]:
    """The number, and the number beside it, as far as there are any."""
    if text is None:
        return None, None
    form, example = FORMS[interval]
    match = form.fullmatch(text)
    if match is None:
        raise InputError(f'{where}: {text!r} is no number of this table; write it like "{example}", in quotes')
    return float(match["value"]), float(match["beside"]) if match["beside"] else None
