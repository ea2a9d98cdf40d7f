"""What a paper prints, as facts: numbers, the tables and figures that they stand in, and what is wrong with them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from clustering.foundation.parameters import AtLeast, validate

Kind = Literal["own", "rerun", "quoted", "unclear"]
"""Whose number it is: the work's own method, a rival run by the authors, copied from elsewhere, or not told."""


@dataclass(frozen=True)
class Value:
    """One printed number.

    Attributes:
        value: the number, in the unit of its column.
        printed: as it stands in the file of the table, with its interval; a power of ten in e-form.
        half_width: the number printed beside it, of the kind that the table's `interval` says; None without one.
        kind: whose number it is.
        note: what the reader should know of this number alone.
        errata: ids of what looks wrong with it (`runs.tables.papers.published.errata`).
        corrected: the number to compare with instead, in the same unit; None where the printed one stands.
        corrected_half_width: as `half_width`.
        corrected_source: the table that prints the corrected number, such as "slk_fewshot/II".
        target: whether a run may be compared with it at all; if not, one of the errata says why.
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
        """Half a unit of the last digit that is printed."""
        digits = re.search(r"\d+(?:\.(\d+))?(?:e([-+]?\d+))?", self.printed)
        return 0.5 * 10.0 ** (int(digits[2] or 0) - len(digits[1] or "")) if digits else 0.0


@dataclass(frozen=True)
class PublishedColumn:
    """One column; a printed column of two metrics is two of these, alike but for the metric.

    Attributes:
        group: the heading above several columns; "" without one.
        name: the heading.
        metric: accuracy, nmi, acc_hungarian, ari, seconds, objective ... as in the record of runs, where it is there.
        unit: "%", "s" or "".
        better: which direction is better; None for what describes, such as a number of samples.
        kind: whose numbers its are, where columns and not rows are methods; else None.
    """

    name: str
    metric: str
    better: Literal["higher", "lower"] | None
    group: str = ""
    unit: Literal["", "%", "s"] = ""
    kind: Kind | None = None

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class PublishedRow:
    """One row.

    Attributes:
        group: what several rows share: the network, the half of the table; "" without one.
        name: the method, or what is described.
        kind: whose numbers its are; None where the column says so.
        cite: the source that the work gives for it.
        note: what the reader should know.
        column_groups: the groups of columns that it has cells in; all without one.
    """

    name: str
    kind: Kind | None = None
    group: str = ""
    cite: str = ""
    note: str = ""
    column_groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class Place:
    """Cells of a table: those whose row and column are named by every list that is not empty; or figures."""

    table: str = ""
    row_groups: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    column_groups: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate(self)

    @property
    def whole_table(self) -> bool:
        """Whether it names no row and no column."""
        return not (self.row_groups or self.rows or self.column_groups or self.columns or self.metrics)

    def holds(self, row: PublishedRow, column: PublishedColumn) -> bool:
        """Whether the cell of this row and column, of its table, is one of them."""
        wanted = (
            (self.row_groups, row.group),
            (self.rows, row.name),
            (self.column_groups, column.group),
            (self.columns, column.name),
            (self.metrics, column.metric),
        )
        return all(not names or name in names for names, name in wanted)


@dataclass(frozen=True)
class Erratum:
    """What looks wrong in print, or needs care.

    Attributes:
        id: "E01" and so on; "C1" and so on for caveats.
        severity: how much it matters to a comparison.
        text: what, why, and what to do about it.
        where: the cells or figures.
        target: False where the numbers are no target for a run.
    """

    id: str
    severity: Literal["high", "medium", "low", "caveat"]
    text: str
    where: tuple[Place, ...]
    target: bool = True

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class PublishedTable:
    """One table of a work.

    Attributes:
        work: "thesis", "slk", "slk_fewshot", "xsdc" or "entropy".
        number: as printed, "4.1" or "II".
        caption: what it shows, in our words.
        columns, rows: in the order of print.
        values: (index of the row, index of the column) -> number.
        missing: (index of the row, index of the column) -> what is printed instead of a number: "-", "N/A" or "".
        errata: ids of the errata about it or about cells of it.
        protocol: how the numbers were made, as far as the work says; short keys.
        interval: what stands beside the numbers: half-widths of 95 % intervals, standard deviations, or nothing.
        over: what the interval is, or would be, taken over; None where that is not said.
        tasks: tasks behind a number, where there are any and the work says how many.
        runs: runs behind a number, likewise.
        remark: how the table was read from its source, where that was not plain.
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
    tasks: Annotated[int, AtLeast(1)] | None = None
    runs: Annotated[int, AtLeast(1)] | None = None
    remark: str = ""

    def __post_init__(self) -> None:
        validate(self)

    @property
    def name(self) -> str:
        """As `transduce table` takes it: "thesis/4.1"."""
        return f"{self.work}/{self.number}"

    @property
    def kind(self) -> Literal["results", "description", "formulas"]:
        """Results of methods, a description of data or definitions, or formulas without any number."""
        if not self.values:
            return "formulas"
        return "results" if any(column.better for column in self.columns) else "description"


@dataclass(frozen=True)
class PublishedFigure:
    """One figure of a work.

    Attributes:
        work, number: as for tables.
        data_like: drawn from data or an equation, so that it can be drawn again; else a sketch.
        shows: what is seen, in our words.
        axes: the axes and panels; "" for sketches.
        note: what else is to be known.
    """

    work: str
    number: str
    data_like: bool
    shows: str
    axes: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        validate(self)

    @property
    def name(self) -> str:
        """As `transduce figure` takes it: "thesis/4.1"."""
        return f"{self.work}/{self.number}"


@dataclass(frozen=True)
class Statement:
    """A number, or several, that a work states in its text alone: where, of what, the words printed, their unit."""

    work: str
    where: str
    what: str
    value: str
    unit: str = ""

    def __post_init__(self) -> None:
        validate(self)
