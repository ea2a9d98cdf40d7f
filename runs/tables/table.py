"""A table: cells by row and column, each with the printed number, the result of runs here, and the verdict.

The grid of an experiment and the table of a paper are the same object; cells of the former have no printed number.
Values are in the unit of the runs (fractions, seconds); `Column.scale` converts them to the unit that is shown.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

from runs.config import groups
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.tables.keys import Config
from runs.tables.papers.published import Cause, Erratum, Value

VerdictStatus = Literal[
    "reproduced", "above", "below", "other protocol", "not run", "cannot run here", "no target", "not printed"
]
STATUSES: tuple[VerdictStatus, ...] = get_args(VerdictStatus)
ClaimStatus = Literal["holds", "tie", "fails", "not run"]
CLAIM_STATUSES: tuple[ClaimStatus, ...] = get_args(ClaimStatus)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a cell, in the printed unit; `runs.tables.judging` decides it.

    Attributes:
        status: reproduced, above or below (as numbers, whichever is better); other protocol: the result has another
            setting; not run: it can be run, even if the paper leaves it empty; cannot run here; no target: the printed
            number cannot be compared with; not printed: it was run, and the paper leaves it empty.
        why: the keys that differ, what is missing, or the interval that decided.
        difference: result minus target; NaN without a result or a target.
        cause: of above or below, why the result differs (`runs/published/causes.yaml`); None if it was not looked for.
    """

    status: VerdictStatus
    why: str = ""
    difference: float = math.nan
    cause: Cause | None = None


@dataclass(frozen=True)
class Finding:
    """The status of a claim in one setting.

    Attributes:
        claim: the statement.
        source: where it is made.
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
class Row:
    """A row's heading.

    Attributes:
        name: such as a strategy.
        group: heading of several rows in the print, such as a network; empty without groups.
        kind: what the method declares ("inductive", "transductive, balanced"), or the origin of the row in the paper
            ("own", "rerun", "quoted").
        note: a remark of the print.
    """

    name: str
    group: str = ""
    kind: str = ""
    note: str = ""

    def __str__(self) -> str:
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True)
class Column:
    """A column's heading.

    Attributes:
        name: such as "1-shot".
        group: heading of several columns in the print, such as a benchmark.
        metric: name of the metric in the runs.
        unit: as shown: "%", "s" or nothing.
        better: whether higher or lower values are better; None for neither.
    """

    name: str
    group: str = ""
    metric: str = "accuracy"
    unit: str = "%"
    better: Literal["higher", "lower"] | None = "higher"

    def __str__(self) -> str:
        return f"{self.group} {self.name}".strip()

    @property
    def scale(self) -> float:
        """Factor from the unit of the runs to the unit shown."""
        return 100.0 if self.unit == "%" else 1.0


@dataclass(frozen=True)
class SeedResult:
    """The result of one tracked run, in the unit of runs.

    Attributes:
        seed: seed of the run.
        value: the metric of the cell.
        half_width: half the 95 % interval over tasks, or over the queries of a single task; NaN without an interval.
        tasks: number of tasks averaged.
        run_id: MLflow's id of the run.
        artifacts: URI of its files.
        as_printed: the metric by which the paper scored, where it is another one; else NaN.
    """

    seed: int
    value: float
    half_width: float
    tasks: int
    run_id: str
    artifacts: str = ""
    as_printed: float = math.nan


@dataclass(frozen=True)
class OnPath:
    """The point on a path of weights that a printed number of fair clustering is compared with.

    Attributes:
        weight: the weight on the path; None for a method without weights.
        metric: name of the printed metric in the runs.
    """

    weight: float | None
    metric: str


@dataclass(frozen=True)
class Tolerance:
    """Largest deviation that still counts as reproduced: an absolute difference in the printed unit, or a factor.

    Attributes:
        alone: whether intervals are left out, because the print has the same queries.
    """

    absolute: float = 0.0
    factor: float = 1.0
    alone: bool = False

    def holds(self, value: float, target: float) -> bool:
        """Whether the two differ by no more than the tolerance."""
        if abs(value - target) <= self.absolute:
            return True
        low, high = sorted((value, target))
        return self.factor > 1 and low > 0 and high <= self.factor * low


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        config: config of its runs, for one of the seeds; None where no method here makes it.
        obstacle: why `config` is None, or what is missing before it can be run.
        results: the runs that fill it, one for each seed; empty where it was not run.
        shipped: the shipped results that fill it, one for each seed; see `runs.tables.shipped`.
        published: the printed number, in the printed unit; None where nothing is printed.
        scored: name in the runs of the metric that the paper printed, where it is not the metric of the column; for a
            fair clustering, `on_path` in words.
        on_path: for a fair clustering, the point on its path of weights that was printed, if known.
        differs: keys in which `config` is not the paper's protocol, as in "tasks=1000, not 10000".
        tolerance: deviations from the printed number that still count as reproduced.
        cause: why results here differ from the print, if they do and it was looked for.
        verdict: the result compared with the printed number; None before that.
        best: whether it is significantly better, task by task, than every other filled cell of its column.
    """

    config: Config | None
    obstacle: str = ""
    results: tuple[SeedResult, ...] = ()
    shipped: tuple[SeedResult, ...] = ()
    published: Value | None = None
    scored: str = ""
    on_path: OnPath | None = None
    differs: tuple[str, ...] = ()
    tolerance: Tolerance = Tolerance()
    cause: Cause | None = None
    verdict: Verdict | None = None
    best: bool = False

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

    @property
    def tasks(self) -> int:
        """Number of tasks over all seeds."""
        return sum(r.tasks for r in self.results)


@dataclass(frozen=True)
class Table:
    """Cells by row and column.

    Attributes:
        name: "quickstart", "thesis/4.1", "thesis/4.4@omniglot".
        about: what all cells have in common, in words.
        rows: in the order shown.
        columns: in the order shown.
        cells: by (row, column); places that the print leaves out are missing.
        configs: every config to be run for it, one for each seed.
        seeds: seeds whose runs count; empty for all seeds of the record.
        notes: remarks for the reader: which runs are left out and why.
        errata: known errors of the print, by the ids that values cite.
        findings: the claims of the papers that were checked on its runs.
    """

    name: str
    about: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[Row, Column], Cell]
    configs: tuple[Config, ...] = ()
    seeds: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    errata: tuple[Erratum, ...] = ()
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, name: str, about: str, cells: Mapping[tuple[Row, Column], Cell], **more: Any) -> Self:
        """The table of these cells, whose rows and columns are in the order in which they first occur."""
        rows, columns = dict.fromkeys(row for row, _ in cells), dict.fromkeys(column for _, column in cells)
        return cls(name, about, tuple(rows), tuple(columns), cells, **more)

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
        return [cell for cell in self.cells.values() if cell.config and not cell.results]

    @property
    def statuses(self) -> dict[VerdictStatus, int]:
        """Number of cells for each verdict, in the order of `STATUSES`; verdicts without cells are omitted."""
        counts = Counter(cell.verdict.status for cell in self.cells.values() if cell.verdict)
        return {status: counts[status] for status in STATUSES if counts[status]}

    def at(self, row: str, column: str) -> Cell:
        """The cell under the headings of these names, groups before them."""
        return next(cell for (r, c), cell in self.cells.items() if (str(r), str(c)) == (row, column))

    @cached_property
    def title(self) -> str:
        """What the cells have in common, with the numbers of tasks and seeds of the runs."""
        filled = [cell.results for cell in self.cells.values() if cell.results]
        counts = sorted({result.tasks for results in filled for result in results if result.tasks})
        seeds = sorted({len(results) for results in filled} or {1})
        parts = [self.about]
        parts += [f"{_range(counts)} task{'' if counts[-1] == 1 else 's'} a seed"] if counts else []
        parts += [f"{_range(seeds)} seeds"] if seeds[-1] > 1 else []
        words = {"%": "values in %", "s": "times in seconds"}
        shown = [words[unit] for unit in dict.fromkeys(column.unit for column in self.columns) if unit in words]
        if counts or seeds[-1] > 1:
            over = "seeds" if seeds[-1] > 1 else "queries" if counts == [1] else "tasks"
            shown.append(f"95 % interval over {over}")
        return "; ".join(filter(None, (", ".join(filter(None, parts)), ", ".join(shown))))


def _range(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def is_paper(name: str) -> bool:
    """Whether a table's name is of the form WORK/NUMBER, with or without @BENCHMARK."""
    is_file = name.endswith((".yaml", ".yml"))
    return "/" in name and not is_file and name.partition("@")[0] not in groups.names("experiment")
