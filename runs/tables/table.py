"""A table: cells by row and column, each with what was printed, what was found here, and what to make of the two.

An experiment's grid and a paper's table are the same object; cells of the former have nothing printed. Values are in
the unit of the runs (fractions, seconds); `Column.scale` takes them to the unit that is shown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.tables.papers.published import Erratum, Value
from runs.tables.verdicts import Verdict

Config = EvaluateConfig | ClusterConfig | FairConfig
"""What fills a cell: few-shot tasks, a clustering, or a fair one along weights."""


@dataclass(frozen=True)
class Row:
    """A row's heading.

    Attributes:
        name: such as a strategy.
        group: what the print groups rows by, such as a network; empty where there are no groups.
        kind: what the method declares of itself ("inductive", "transductive, balanced"), or where the paper has the
            row from ("own", "rerun", "quoted").
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
        group: what the print groups columns by, such as a benchmark.
        metric: the runs' name of what stands in it.
        unit: as shown: "%", "s" or nothing.
        better: which of two values is the better one; None where neither is.
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
        """What a run's value is multiplied with to be shown."""
        return 100.0 if self.unit == "%" else 1.0


@dataclass(frozen=True)
class SeedResult:
    """What one tracked run says, in the unit of runs.

    Attributes:
        seed: of everything drawn in it.
        value: the metric of the cell.
        half_width: of its 95 % interval over tasks, or the queries of the only one; NaN where it has none.
        tasks: how many it is the mean of.
        run_id: of MLflow.
        artifacts: URI of its files.
        as_printed: the metric as the paper scored it, where that is another one; else NaN.
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
    """What of a fair clustering along weights a print is held against.

    Attributes:
        weight: of the path; None of a method without one.
        metric: the runs' name of what is printed.
    """

    weight: float | None
    metric: str


@dataclass(frozen=True)
class Near:
    """The newest run that is like a cell's, but for a few keys.

    Attributes:
        differs: those keys, with its values: "tasks=1000, not 10000".
        value: its metric.
        run_id: of MLflow.
    """

    differs: tuple[str, ...]
    value: float
    run_id: str


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        config: what fills it (with some seed); None where nothing here does.
        obstacle: why `config` is None, or what is missing before it can be run.
        results: the runs that fill it, one for each seed; none where it was not run.
        published: what the paper prints, in the printed unit; None where it prints nothing.
        scored: the runs' name of what the paper printed, where that is not the metric of the column; of a fair
            clustering, `on_path` in words.
        on_path: of a fair clustering, where on its path of weights the print is, if that is known.
        differs: keys in which `config` is not the paper's protocol, as in "tasks=1000, not 10000".
        near: a run that does not fill it, but nearly does.
        verdict: of what was found against what was printed; None where nothing is printed.
        best: significantly better, task by task, than every other filled cell of its column.
    """

    config: Config | None
    obstacle: str = ""
    results: tuple[SeedResult, ...] = ()
    published: Value | None = None
    scored: str = ""
    on_path: OnPath | None = None
    differs: tuple[str, ...] = ()
    near: Near | None = None
    verdict: Verdict | None = None
    best: bool = False

    @property
    def few_shot(self) -> EvaluateConfig | None:
        """The config, where it is of few-shot tasks."""
        return self.config if isinstance(self.config, EvaluateConfig) else None

    @property
    def clustering(self) -> ClusterConfig | None:
        """The config, where it is of a clustering."""
        return self.config if isinstance(self.config, ClusterConfig) else None

    @property
    def fair(self) -> FairConfig | None:
        """The config, where it is of a fair clustering."""
        return self.config if isinstance(self.config, FairConfig) else None

    @property
    def value(self) -> float:
        """Mean over seeds; NaN where there is no run."""
        return sum(r.value for r in self.results) / len(self.results) if self.results else math.nan

    @property
    def half_width(self) -> float:
        """Of the 95 % interval: over seeds (Student's t) where there are several, else over tasks, or the queries of
        the only one."""
        if not self.results:
            return math.nan
        if len(self.results) == 1:
            return self.results[0].half_width
        from fsl.evaluation.scores import half_width_over_seeds  # numpy: not for a table that is only listed

        return half_width_over_seeds([result.value for result in self.results])

    @property
    def as_printed(self) -> float:
        """Mean over seeds of what the paper scored by; NaN where that is the metric of the column."""
        return sum(r.as_printed for r in self.results) / len(self.results) if self.results else math.nan

    @property
    def tasks(self) -> int:
        """Tasks over all seeds."""
        return sum(r.tasks for r in self.results)


@dataclass(frozen=True)
class Table:
    """Cells by row and column.

    Attributes:
        name: "quickstart", "thesis/4.1", "thesis/4.4@omniglot".
        about: what all cells have in common, as words.
        rows: in the order shown.
        columns: in the order shown.
        cells: by (row, column); where the print leaves a place out, there is none.
        configs: everything to be run for it, each seed by itself.
        seeds: those whose runs count; all of the record where none is named.
        notes: what the reader should know: runs left aside and why.
        errata: what is known to be wrong in the print, by the ids that values cite.
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

    @property
    def file_name(self) -> str:
        """The name as files have it: thesis-4.4-omniglot."""
        return self.name.replace("/", "-").replace("@", "-")

    @property
    def from_paper(self) -> bool:
        """Whether it is held against a print."""
        return any(cell.published for cell in self.cells.values())

    @property
    def missing(self) -> list[Cell]:
        """Cells that could be run and were not."""
        return [cell for cell in self.cells.values() if cell.config and not cell.results]

    def at(self, row: str, column: str) -> Cell:
        """The cell under the headings of these names, groups before them."""
        return next(cell for (r, c), cell in self.cells.items() if (str(r), str(c)) == (row, column))

    @cached_property
    def title(self) -> str:
        """What the cells have in common, with the tasks and seeds behind what was found."""
        found = [cell for cell in self.cells.values() if cell.results]
        configs = [cell.few_shot for cell in self.cells.values()]
        asked = [] if self.from_paper else [config.tasks for config in configs if config and config.tasks]
        counts = sorted({result.tasks for cell in found for result in cell.results if result.tasks} or set(asked))
        seeds = sorted({len(cell.results) for cell in found} or {1})
        parts = [self.about]
        if counts:
            parts.append(f"{_range(counts)} task{'' if counts[-1] == 1 else 's'} a seed")
        if seeds[-1] > 1:
            parts.append(f"{_range(seeds)} seeds")
        in_print = {"%": "values in %", "s": "times in seconds"}
        words = in_print if self.from_paper else {"%": "accuracy in %", "s": "seconds a task"}
        shown = [words[unit] for unit in dict.fromkeys(column.unit for column in self.columns) if unit in words]
        if counts:
            over = "seeds" if seeds[-1] > 1 else "queries" if counts == [1] else "tasks"
            shown.append(f"95 % interval over {over}")
        return "; ".join(filter(None, (", ".join(filter(None, parts)), ", ".join(shown))))


def _range(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"
