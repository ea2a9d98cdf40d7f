"""A cell of a table: the row of a tidy frame, with the printed number, the results of runs here, and the verdict."""

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.tables.keys import Config

Status = Literal[
    "reproduced", "above", "below", "other protocol", "not run", "cannot run here", "no target", "not printed"
]
STATUSES: tuple[Status, ...] = get_args(Status)


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
        if abs(value - target) <= self.absolute:
            return True
        low, high = sorted((value, target))
        return self.factor > 1 and low > 0 and high <= self.factor * low


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
    known_cause: Any = None  # a `Cause` of runs.tables.papers.published
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


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
