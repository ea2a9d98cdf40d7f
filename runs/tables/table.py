"""A table: cells with what is printed, the results of runs here, and the verdicts; and what came of the claims."""

import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from runs.config import groups
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.tables.keys import Config

if TYPE_CHECKING:
    from runs.tables.published import Cause, Erratum

Status = Literal[
    "reproduced", "above", "below", "other protocol", "not run", "cannot run here", "no target", "not printed"
]
STATUSES: tuple[Status, ...] = get_args(Status)
ClaimStatus = Literal["holds", "tie", "fails", "not run"]
CLAIM_STATUSES: tuple[ClaimStatus, ...] = get_args(ClaimStatus)


@dataclass(frozen=True)
class SeedResult:
    """The result of one tracked run, in the unit of runs.

    Attributes:
        seed: seed of the run.
        value: the metric of the cell.
        half_width: half the 95 % interval over tasks, or over the queries of a single task; NaN without an interval.
        tasks: number of tasks averaged.
        run_id, artifacts: MLflow's id of the run, and the URI of its files.
        as_printed: the metric by which the paper scored, where it is another one; else NaN.
    """

    seed: int
    value: float
    half_width: float
    tasks: int
    run_id: str = ""
    artifacts: str = ""
    as_printed: float = math.nan


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
    """One cell. Printed numbers are in the unit shown, results in that of the runs (fractions, seconds).

    Attributes:
        row, column: headings, such as a strategy and a number of shots.
        row_group, column_group: headings of several rows or columns, such as a network and a benchmark; "" without.
        row_kind: what the method declares ("transductive, balanced"), or the origin of the row in the paper.
        row_note: a remark of the print.
        metric: name of the metric: in a published table that of the print, else that in the runs.
        unit: as shown: "%", "s" or nothing.
        better: whether higher or lower values are better; None for descriptions, such as a number of samples.
        printed: the number as printed, with its interval, a power of ten in e-form; "" where nothing is printed.
        published, published_half_width: the number, and the one printed beside it, of the kind of the table's
            `interval`; None without one.
        kind: origin of the printed number: own, rerun by the authors, quoted from elsewhere, or unclear.
        remark: a remark on this number.
        errata: ids of its known errors.
        corrected, corrected_half_width, corrected_source: the numbers to compare with instead, and the table that
            prints them, such as "slk_fewshot/II"; None if the printed ones hold.
        target: whether runs may be compared with it; if not, one of the errata says why.
        config: config of its runs, for one of the seeds; None where no method here makes it.
        obstacle: why `config` is None, or what is missing before it can be run.
        scored: name in the runs of the metric that the paper printed, where it is not `metric`; for a fair clustering,
            `on_path` in words.
        on_path: of a fair clustering, the weight (None for a method without weights) and the metric in the runs of the
            point that was printed, if known.
        differs: keys in which `config` is not the paper's protocol, as in "tasks=1000, not 10000".
        tolerance: deviations from the printed number that still count as reproduced.
        known_cause: why results here differ from the print, if they do and it was looked for.
        results: the runs that fill it, one for each seed; empty where it was not run.
        shipped: the shipped results that fill it, one for each seed; see `runs.tables.shipped`.
        verdict: what `runs.tables.judging` says: reproduced, above or below (as numbers, whichever is better); other
            protocol: the result has another setting; not run: it can be run, even if the paper leaves it empty; cannot
            run here; no target: the printed number cannot be compared with; not printed: it was run, and the paper
            leaves it empty; None for a table without a print.
        why: the keys that differ, what is missing, or the interval that decided.
        difference: result minus target, in the unit shown; NaN without a result or a target.
        best: whether it is significantly better, task by task, than every other filled cell of its column.
    """

    row: str
    column: str
    row_group: str = ""
    row_kind: str = ""
    row_note: str = ""
    column_group: str = ""
    metric: str = "accuracy"
    unit: str = "%"
    better: Literal["higher", "lower"] | None = "higher"
    printed: str = ""
    published: float | None = None
    published_half_width: float | None = None
    kind: str = ""
    remark: str = ""
    errata: tuple[str, ...] = ()
    corrected: float | None = None
    corrected_half_width: float | None = None
    corrected_source: str = ""
    target: bool = True
    config: Config | None = None
    obstacle: str = ""
    scored: str = ""
    on_path: tuple[float | None, str] | None = None
    differs: tuple[str, ...] = ()
    tolerance: Tolerance = Tolerance()
    known_cause: "Cause | None" = None
    results: tuple[SeedResult, ...] = ()
    shipped: tuple[SeedResult, ...] = ()
    verdict: Status | None = None
    why: str = ""
    difference: float = math.nan
    best: bool = False

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
    def cause(self) -> "Cause | None":
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
    """The status of a claim in one setting.

    Attributes:
        claim, source: the statement, and where it is made.
        setting: the column, columns or data set that it was checked on; empty where it was not run.
        status: holds, tie or fails; not run where the table has the methods but not their runs.
        evidence: the numbers.
    """

    claim: str
    source: str
    setting: str
    status: ClaimStatus
    evidence: str


@dataclass(frozen=True)
class Table:
    """Cells, row by row.

    Attributes:
        name: "quickstart", "thesis/4.1", "thesis/4.4@omniglot".
        about: what all cells have in common, in words.
        cells: one at each place; places that the print leaves out are missing.
        columns: `Cell.column_key` of each column in the order shown; by default that of the cells.
        configs: every config to be run for it, one for each seed.
        seeds: seeds whose runs count; empty for all seeds of the record.
        notes: remarks for the reader: which runs are left out and why.
        errata: known errors of the print, by the ids that cells cite.
        findings: the claims of the papers that were checked on its runs.
    """

    name: str
    about: str
    cells: tuple[Cell, ...]
    columns: tuple[tuple[str, str, str], ...] = ()
    configs: tuple[Config, ...] = ()
    seeds: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    errata: "tuple[Erratum, ...]" = ()
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
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

    @property
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


def distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The first cell at each place."""
    found: dict[tuple[str, ...], Cell] = {}
    for cell in cells:
        found.setdefault(cell.place, cell)
    return tuple(found.values())


def is_paper(name: str) -> bool:
    """Whether a table's name is of the form WORK/NUMBER, with or without @BENCHMARK."""
    is_file = name.endswith((".yaml", ".yml"))
    return "/" in name and not is_file and name.partition("@")[0] not in groups.names("experiment")


def _range(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
