"""What a paper prints: its numbers, tables and figures, known errors in them, and causes of differences."""

import re
from collections.abc import Mapping
from dataclasses import dataclass as plain
from dataclasses import field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(extra="forbid")
Text = Annotated[str, Field(min_length=1)]
Kind = Literal["own", "rerun", "quoted", "unclear"]
"""Origin of a number: the work's own method, a rival run by the authors, copied from elsewhere, or unclear."""


@plain(frozen=True)
class Value:
    """One printed number.

    Attributes:
        value: the number, in the unit of its column.
        printed: the number as printed, with its interval; a power of ten in e-form.
        half_width: the number printed beside it, of the kind in the table's `interval`; None without one.
        kind: origin of the number.
        note: a remark on this number.
        errata: ids of its known errors (`runs.tables.papers.published.errata`).
        corrected: the number to compare with instead, in the same unit; None if the printed one holds.
        corrected_half_width: as `half_width`, for `corrected`.
        corrected_source: the table that prints the corrected number, such as "slk_fewshot/II".
        target: whether runs may be compared with it; if not, one of the errata says why.
    """

    value: float
    printed: str
    half_width: float | None
    kind: Kind
    note: str = ""
    errata: tuple[str, ...] = ()
    corrected: float | None = None
    corrected_half_width: float | None = None
    corrected_source: str = ""
    target: bool = True

    @property
    def resolution(self) -> float:
        """Half a unit of the last printed digit."""
        digits = re.search(r"\d+(?:\.(\d+))?(?:e([-+]?\d+))?", self.printed)
        return 0.5 * 10.0 ** (int(digits[2] or 0) - len(digits[1] or "")) if digits else 0.0


@dataclass(frozen=True, config=STRICT)
class PublishedColumn:
    """One column. A printed column of two metrics is two columns that differ in `metric`.

    Attributes:
        group: the heading above several columns; "" without one.
        name: the heading.
        metric: accuracy, nmi, acc_hungarian, ari, seconds, objective ..., named as in the record if it is there.
        unit: "%", "s" or "".
        better: which direction is better; None for descriptions, such as a number of samples.
        kind: origin of its numbers, if columns are methods; else None.
    """

    name: str
    metric: str
    better: Literal["higher", "lower"] | None
    group: str = ""
    unit: Literal["", "%", "s"] = ""
    kind: Kind | None = None


@dataclass(frozen=True, config=STRICT)
class PublishedRow:
    """One row.

    Attributes:
        group: what several rows have in common, such as the network; "" without one.
        name: the method, or what is described.
        kind: origin of its numbers; None if the column says it.
        cite: the source that the work cites for it.
        note: a remark for the reader.
        column_groups: groups of columns in which it has cells; empty for all.
    """

    name: str
    kind: Kind | None = None
    group: str = ""
    cite: str = ""
    note: str = ""
    column_groups: tuple[str, ...] = ()


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
    def whole_table(self) -> bool:
        """Whether it names no rows and no columns."""
        return not (self.row_groups or self.rows or self.column_groups or self.columns or self.metrics)

    def holds(self, row: PublishedRow, column: PublishedColumn) -> bool:
        """Whether the cell of this row and column of its table belongs to it."""
        wanted = (
            (self.row_groups, row.group),
            (self.rows, row.name),
            (self.column_groups, column.group),
            (self.columns, column.name),
            (self.metrics, column.metric),
        )
        return all(not names or name in names for names, name in wanted)


@dataclass(frozen=True, config=STRICT)
class Erratum:
    """A known error of the print, or a caveat.

    Attributes:
        id: "E01" and so on; "C1" and so on for caveats.
        severity: its importance for comparisons.
        text: what is wrong, why, and what to do about it.
        where: the cells or figures.
        target: False if runs must not be compared with the numbers.
    """

    id: str
    severity: Literal["high", "medium", "low", "caveat"]
    text: str
    where: tuple[Place, ...]
    target: bool = True


@dataclass(frozen=True, config=STRICT)
class Cause:
    """Why results of this project differ from the print, for cells whose verdict is above or below.

    Attributes:
        id: "D01" and so on.
        cause: what was found by changing one thing; "unknown" if it was looked for and not found.
        evidence: the page or the command that shows it.
        where: the cells.
    """

    id: str
    cause: Text
    evidence: Text
    where: Annotated[tuple[Place, ...], Field(min_length=1)]

    def holds(self, table: str, row: PublishedRow, column: PublishedColumn) -> bool:
        """Whether it is about the cell of this row and column of a table."""
        return any(place.table == table and place.holds(row, column) for place in self.where)

    def __str__(self) -> str:
        return f"cause of the difference: {self.cause.rstrip('.')} ({self.evidence})"


@plain(frozen=True)
class PublishedTable:
    """One table of a work.

    Attributes:
        work: its short name, such as "thesis" or "slk_fewshot".
        number: as printed, "4.1" or "II".
        caption: what it shows, in our words.
        columns, rows: in printed order.
        values: (index of the row, index of the column) -> number.
        missing: (index of the row, index of the column) -> what is printed instead of a number: "-", "N/A" or "".
        errata: ids of the errata about it or its cells.
        protocol: how the numbers were made, as far as the work says, by short keys.
        interval: the numbers beside the values: half-widths of 95 % intervals, standard deviations, or none.
        over: what the interval is taken over; None if the work does not say.
        tasks: number of tasks behind a value, if there are any and the work says how many.
        runs: number of runs behind a value, likewise.
        remark: how the table was read from its source, if that was unclear.
    """

    work: str
    number: str
    caption: str
    columns: tuple[PublishedColumn, ...]
    rows: tuple[PublishedRow, ...]
    values: Mapping[tuple[int, int], Value]
    missing: Mapping[tuple[int, int], str]
    errata: tuple[str, ...]
    protocol: Mapping[str, str] = field(default_factory=dict)
    interval: Literal["ci95", "std", "none"] = "none"
    over: Literal["tasks", "runs"] | None = None
    tasks: int | None = None
    runs: int | None = None
    remark: str = ""

    @property
    def name(self) -> str:
        """Name for `transduce table`: "thesis/4.1"."""
        return f"{self.work}/{self.number}"

    @property
    def kind(self) -> Literal["results", "description", "formulas"]:
        """Results of methods, a description of data or definitions, or formulas without any number."""
        if not self.values:
            return "formulas"
        return "results" if any(column.better for column in self.columns) else "description"


@dataclass(frozen=True, config=STRICT)
class PublishedFigure:
    """One figure of a work.

    Attributes:
        work, number: as for tables.
        data_like: whether it is drawn from data or an equation, so that it can be drawn again; else a sketch.
        shows: what it shows, in our words.
        axes: the axes and panels; "" for sketches.
        note: a remark for the reader.
    """

    work: str
    number: str
    data_like: bool
    shows: str
    axes: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """Name for `transduce figure`: "thesis/4.1"."""
        return f"{self.work}/{self.number}"


@dataclass(frozen=True, config=STRICT)
class Statement:
    """Numbers that a work states only in its text: where, of what, the printed words, and their unit."""

    work: str
    where: str
    what: str
    value: str
    unit: str = ""
