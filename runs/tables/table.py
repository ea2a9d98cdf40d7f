"""A table: cells with what is printed, the results of runs here, and the verdicts; and what came of the claims."""

import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

from runs.config import groups
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.tables.keys import Config

Status = Literal[
    "reproduced", "above", "below", "other protocol", "not run", "cannot run here", "no target", "not printed"
]
STATUSES: tuple[Status, ...] = get_args(Status)
ClaimStatus = Literal["holds", "tie", "fails", "not run"]
CLAIM_STATUSES: tuple[ClaimStatus, ...] = get_args(ClaimStatus)


@dataclass(frozen=True)
class SeedResult:
    """The result of one tracked run, in the unit of runs."""

    seed: int
    value: float  # the metric of the cell
    half_width: float  # half the 95 % interval over tasks, or over the queries of a single task; NaN without one
    tasks: int  # number of tasks averaged
    run_id: str = ""  # MLflow's id of the run
    artifacts: str = ""  # the URI of its files
    as_printed: float = math.nan  # the metric by which the paper scored, where it is another one


@dataclass(frozen=True)
class Tolerance:
    """Largest deviation that still counts as reproduced: an absolute difference in the printed unit, or a factor.
    `alone`: intervals do not count, because the print has the same queries."""

    absolute: float = 0.0
    factor: float = 1.0
    alone: bool = False

    def holds(self, value: float, target: float) -> bool:
        """Whether the two differ by no more than the tolerance."""
        low, high = sorted((value, target))
        return high - low <= self.absolute or (self.factor > 1 and low > 0 and high <= self.factor * low)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell. Printed numbers are in the unit shown, results in that of the runs (fractions, seconds)."""

    row: str  # heading, such as a strategy
    column: str  # heading, such as a number of shots
    row_group: str = ""  # heading of several rows, such as a network; "" without
    row_kind: str = ""  # what the method declares ("transductive, balanced"), or the origin of the row in the paper
    row_note: str = ""  # a remark of the print
    column_group: str = ""  # heading of several columns, such as a benchmark; "" without
    metric: str = "accuracy"  # in a published table the name in print, else that in the runs
    unit: str = "%"  # as shown: "%", "s" or nothing
    better: Literal["higher", "lower"] | None = "higher"  # None for descriptions, such as a number of samples
    printed: str = ""  # the number as printed, with its interval, a power of ten in e-form; "" without one
    published: float | None = None  # the number
    published_half_width: float | None = None  # the number beside it, of the kind of the table's `interval`
    kind: str = ""  # origin of the printed number: own, rerun by the authors, quoted from elsewhere, or unclear
    remark: str = ""  # on this number
    errata: tuple[str, ...] = ()  # ids of its known errors
    corrected: float | None = None  # the number to compare with instead; None if the printed one holds
    corrected_half_width: float | None = None
    corrected_source: str = ""  # the table that prints it, such as "slk_fewshot/II"
    target: bool = True  # whether runs may be compared with it; if not, one of the errata says why
    config: Config | None = None  # of its runs, for one of the seeds; None where no method here makes it
    obstacle: str = ""  # why `config` is None, or what is missing before it can be run
    # Name in the runs of the metric that was printed, where it is not `metric`; `on_path` in words.
    scored: str = ""
    # Of a fair clustering, the weight (None for a method without) and the metric of the printed point, if known.
    on_path: tuple[float | None, str] | None = None
    differs: tuple[str, ...] = ()  # where `config` is not the paper's protocol, as in "tasks=1000, not 10000"
    tolerance: Tolerance = Tolerance()
    # A `Cause` of runs.tables.published: why results here differ from the print, if they do and it was looked for.
    known_cause: Any = None
    results: tuple[SeedResult, ...] = ()  # the runs that fill it, one for each seed; empty where it was not run
    shipped: tuple[SeedResult, ...] = ()  # the shipped results that fill it, see `runs.tables.shipped`
    # What `runs.tables.judging` says: reproduced, above or below (as numbers, whichever is better); other protocol: the
    # result has another setting; not run: it can be run, even if the paper leaves it empty; cannot run here; no target:
    # the printed number cannot be compared with; not printed: it was run, and the paper leaves it empty; None for a
    # table without a print.
    verdict: Status | None = None
    why: str = ""  # the keys that differ, what is missing, or the interval that decided
    difference: float = math.nan  # result minus target, in the unit shown; NaN without a result or a target
    best: bool = False  # whether it is significantly better, task by task, than every other filled cell of its column

    @property
    def row_key(self) -> tuple[str, str]:
        """The headings of its row."""
        return self.row_group, self.row

    @property
    def column_key(self) -> tuple[str, str, str]:
        """The headings of its column, and the metric: one printed column may have two."""
        return self.column_group, self.column, self.metric

    @property
    def place(self) -> tuple[str, ...]:
        """What no other cell of its table has."""
        return *self.row_key, *self.column_key

    @property
    def row_name(self) -> str:
        """The heading of its row with that of the group."""
        return f"{self.row_group} {self.row}".strip()

    @property
    def column_name(self) -> str:
        """The heading of its column with that of the group."""
        return f"{self.column_group} {self.column}".strip()

    @property
    def scale(self) -> float:
        """Factor from the unit of the runs to the unit shown."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def resolution(self) -> float:
        """Half a unit of the last printed digit."""
        digits = re.search(r"\d+(?:\.(\d+))?(?:e([-+]?\d+))?", self.printed)
        return 0.5 * 10.0 ** (int(digits[2] or 0) - len(digits[1] or "")) if digits else 0.0

    @property
    def few_shot(self) -> EvaluateConfig | None:
        """The config, if it is one of few-shot tasks."""
        return self.config if isinstance(self.config, EvaluateConfig) else None

    @property
    def clustering(self) -> ClusterConfig | None:
        """The config, if it is one of a clustering."""
        return self.config if isinstance(self.config, ClusterConfig) else None

    @property
    def fair(self) -> FairConfig | None:
        """The config, if it is one of a fair clustering."""
        return self.config if isinstance(self.config, FairConfig) else None

    @property
    def cause(self) -> Any:
        """Why the result differs from the print, if it does and it was looked for."""
        return self.known_cause if self.verdict in ("above", "below") else None

    @property
    def as_shipped(self) -> "Cell":
        """The cell with the shipped results as its results."""
        return dataclasses.replace(self, results=self.shipped)

    @property
    def value(self) -> float:
        """Mean over seeds; NaN without runs."""
        return _mean([result.value for result in self.results])

    @property
    def half_width(self) -> float:
        """Half the 95 % interval: over seeds (Student's t) where there are several, else over tasks, or over the
        queries of a single task."""
        if len(self.results) < 2:
            return _mean([result.half_width for result in self.results])
        from fsl.evaluation.scores import half_width_over_seeds  # numpy: not for a table that is only listed

        return half_width_over_seeds([result.value for result in self.results])

    @property
    def as_printed(self) -> float:
        """Mean over seeds of the metric by which the paper scored; NaN where that is the metric of the column."""
        return _mean([result.as_printed for result in self.results])

    @property
    def compared(self) -> float:
        """The value that is compared with the paper: by its scoring where that is another one."""
        return self.as_printed if self.scored else self.value


@dataclass(frozen=True)
class Finding:
    """The status of a claim in one setting."""

    claim: str
    source: str  # where it is made
    setting: str  # the column, columns or data set that it was checked on; empty where it was not run
    status: ClaimStatus  # not run where the table has the methods but not their runs
    evidence: str  # the numbers


@dataclass(frozen=True)
class Table:
    """Cells, row by row."""

    name: str  # "quickstart", "thesis/4.1", "thesis/4.4@omniglot"
    about: str  # what all cells have in common, in words
    cells: tuple[Cell, ...]  # the first at each place; places that the print leaves out are missing
    columns: tuple[tuple[str, str, str], ...] = ()  # `Cell.column_key` in the order shown; by default that of the cells
    configs: tuple[Config, ...] = ()  # every config to be run for it, one for each seed
    seeds: tuple[int, ...] = ()  # seeds whose runs count; empty for all seeds of the record
    notes: tuple[str, ...] = ()  # remarks for the reader: which runs are left out and why
    errata: tuple[Any, ...] = ()  # the `Erratum` of each known error of the print, whose ids cells cite
    findings: tuple[Finding, ...] = ()  # the claims of the papers that were checked on its runs

    def __post_init__(self) -> None:
        first: dict[tuple[str, ...], Cell] = {}
        for cell in self.cells:
            first.setdefault(cell.place, cell)
        object.__setattr__(self, "cells", tuple(first.values()))
        if not self.columns:
            object.__setattr__(self, "columns", tuple(dict.fromkeys(cell.column_key for cell in self.cells)))

    def mapped(self, changes: Callable[[Cell], Mapping[str, Any]], **more: Any) -> Self:
        """The table with new values of some fields of its cells, and of its own fields."""
        cells = tuple(dataclasses.replace(cell, **changes(cell)) for cell in self.cells)
        return dataclasses.replace(self, cells=cells, **more)

    @property
    def file_name(self) -> str:
        """The name for files: thesis-4.4-omniglot."""
        return self.name.replace("/", "-").replace("@", "-")

    @cached_property
    def is_paper(self) -> bool:
        """Whether it is a paper's table, on the paper's data or on others."""
        return is_paper(self.name)

    @property
    def compares(self) -> bool:
        """Whether it is compared with printed numbers: a paper's table, but not on another benchmark."""
        return self.is_paper and "@" not in self.name

    @property
    def missing(self) -> list[Cell]:
        """Cells that can be run here but were not."""
        return [cell for cell in self.cells if cell.config and not cell.results]

    @property
    def statuses(self) -> dict[Status, int]:
        """Number of cells for each verdict, in the order of `STATUSES`; verdicts without cells are omitted."""
        counts = Counter(cell.verdict for cell in self.cells)
        return {status: counts[status] for status in STATUSES if counts[status]}

    @property
    def ordered(self) -> list[Cell]:
        """The cells in the order shown: by rows as they first occur, and by columns."""
        rows = list(dict.fromkeys(cell.row_key for cell in self.cells))
        places = {(row, column): i for i, (row, column) in enumerate(itertools.product(rows, self.columns))}
        return sorted(self.cells, key=lambda cell: places[cell.row_key, cell.column_key])

    def at(self, row: str, column: str) -> Cell:
        """The cell under the headings of these names, groups before them."""
        return next(cell for cell in self.cells if (cell.row_name, cell.column_name) == (row, column))

    @cached_property
    def title(self) -> str:
        """What the cells have in common, with the numbers of tasks and seeds of the runs."""
        filled = [cell.results for cell in self.cells if cell.results]
        counts = sorted({result.tasks for results in filled for result in results if result.tasks})
        seeds = sorted({len(results) for results in filled} or {1})
        parts = [self.about]
        parts += [f"{_range(counts)} task{'' if counts[-1] == 1 else 's'} a seed"] if counts else []
        parts += [f"{_range(seeds)} seeds"] if seeds[-1] > 1 else []
        words = {"%": "values in %", "s": "times in seconds"}
        units = {cell.column_key: cell.unit for cell in self.cells}
        shown = [words[unit] for unit in dict.fromkeys(units[column] for column in self.columns) if unit in words]
        if counts or seeds[-1] > 1:
            over = "seeds" if seeds[-1] > 1 else "queries" if counts == [1] else "tasks"
            shown.append(f"95 % interval over {over}")
        return "; ".join(filter(None, (", ".join(filter(None, parts)), ", ".join(shown))))


def is_paper(name: str) -> bool:
    """Whether a table's name is of the form WORK/NUMBER, with or without @BENCHMARK."""
    is_file = name.endswith((".yaml", ".yml"))
    return "/" in name and not is_file and name.partition("@")[0] not in groups.names("experiment")


def _range(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
