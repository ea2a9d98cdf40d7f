"""Tests of claims about few-shot strategies, on the results of a table.

The strategies of a column have the same tasks, so two of them are compared task by task: a claim that one is better
holds where the 95 % interval of the mean difference lies above zero, fails where it lies below, and is a tie
in between. Columns have different tasks, so gains of different columns are compared as independent means. A table
with several benchmarks or networks is checked on each of them.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fsl.evaluation.scores import Evaluation
from runs.config.groups import Choice
from runs.tables.claims.claim import Cells, Claim, Results
from runs.tables.keys import settings_of
from runs.tables.table import Cell, ClaimStatus, Table

BySeed = Mapping[int, Evaluation]
"""The tracked runs of a cell, task by task."""
Found = Iterator[tuple[str, ClaimStatus, str]]
"""Column, status and evidence."""
Z = 1.96  # of a 95 % interval; 10,000 tasks need no bootstrap
COLLAPSE = 0.10
"""A larger loss of accuracy is a collapse; the published loss of PT-MAP under Dirichlet queries is 0.17."""
MOST_TASKS = 0.95
"""A claim about tasks holds if it is true for a larger share of them."""
ROUNDING = 1e-6
"""Largest relative rise of the objective that counts as float32 rounding."""
APART = ("strategy", "sampler", "tuning", "tasks", "task_seed", "prompt")
"""Groups of settings that differ between the cells of one benchmark and network."""


@dataclass(frozen=True)
class Gain:
    """A mean, or the difference of two, with its standard error. Fractions."""

    value: float
    error: float

    def __sub__(self, other: "Gain") -> "Gain":
        """The difference of two independent ones."""
        return Gain(self.value - other.value, math.hypot(self.error, other.error))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.value - Z * self.error, self.value + Z * self.error

    def above(self, bound: float = 0.0) -> ClaimStatus:
        """Whether it lies above `bound`: holds, fails, or a tie where the interval holds the bound."""
        low, high = self.interval
        return "holds" if low > bound else "fails" if high < bound else "tie"

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"


def gain(better: BySeed, than: BySeed | None = None) -> Gain | None:
    """Mean over the seeds that both have, of the mean over tasks of the one's accuracy less the other's, which were
    given the same tasks; without another, of the one's accuracy. None where they have no seed in common, or other
    tasks."""
    values = []
    for seed in sorted(better.keys() & (better if than is None else than).keys()):
        units = better[seed].by_unit
        other = np.zeros_like(units) if than is None else than[seed].by_unit
        if units.shape != other.shape:
            return None
        values.append(units - other)
    if not values:
        return None
    variances = [float(units.var()) / len(units) for units in values]
    return Gain(float(np.mean([units.mean() for units in values])), math.sqrt(sum(variances)) / len(values))


def settings(table: Table) -> dict[str, Cells]:
    """Return the accuracy cells by benchmark and network (or files of features), column, and strategy.

    If a strategy has several rows, its first row is used, whether it is filled or not, so that all cells of the
    strategy have the same options.
    """
    found: dict[str, dict[str, dict[str, Cell]]] = {}
    names: dict[tuple[tuple[str, str], ...], str] = {}
    for cell in table.cells:
        config = cell.few_shot
        if config is None or cell.metric != "accuracy":
            continue
        keys = settings_of(config)
        name = keys.get("features", f"{config.benchmark.name}/{config.backbone.name}")
        setting = tuple(sorted(item for item in keys.items() if item[0].partition(".")[0] not in APART))
        again = sum(known.partition(" #")[0] == name for known in names.values())
        names.setdefault(setting, f"{name} #{again + 1}" if again else name)
        columns = found.setdefault(names[setting], {})
        columns.setdefault(cell.column_name, {}).setdefault(config.strategy.name, cell)
    return {name: dict(cells) for name, cells in found.items()}


def _columns(results: Results, sampler: str = "", shot: int | None = None) -> list[str]:
    """Return the filled columns with this sampler ("": balanced) and number of shots (None: any)."""
    samplers = {column: _sampler(results, column) for column, cells in results.cells.items() if cells}
    return [
        column
        for column, choice in samplers.items()
        if choice.plugin == (sampler or "balanced") and shot in (None, choice.options.get("shot"))
    ]


def _sampler(results: Results, column: str) -> Choice:
    """Return the sampler of a filled column."""
    config = next(iter(results.cells[column].values())).few_shot
    assert config
    return config.sampler


def _runs(results: Results, column: str, strategy: str) -> BySeed:
    """Return the results of a cell by seed; empty if the cell is not filled."""
    cell = results.cells[column].get(strategy)
    return results.read(cell) if cell else {}


def _gains(claim: Claim, results: Results, *columns: str) -> list[Gain]:
    """Return the accuracy of the claim's strategy in each column, or its paired gain over a second one on the tasks
    of their common seeds; nothing if a column lacks it."""
    gains = [gain(*(_runs(results, column, method) for method in claim.methods)) for column in columns]
    return [one for one in gains if one is not None] if None not in gains else []


def better(claim: Claim, results: Results, classes: Sequence[int] = ()) -> Found:
    """Yield for each column of the claim whether the first strategy is better than the second.

    Args:
        classes: least and greatest number of the named classes that the queries are from; empty: any.
    """
    asked = dict(zip(("classes_min", "classes_max"), classes, strict=False))
    for column in _columns(results, claim.sampler, *claim.shots):
        if asked.items() <= _sampler(results, column).options.items():
            for difference in _gains(claim, results, column):
                yield column, difference.above(), f"{' - '.join(claim.methods)}: {difference}"


def gain_shrinks(claim: Claim, results: Results) -> Found:
    """Yield for each pair of columns whether the first strategy gains more over the second with fewer shots."""
    few, many = (_columns(results, shot=shot) for shot in claim.shots)
    for one, five in itertools.product(few, many):
        if gains := _gains(claim, results, one, five):
            first, last = gains
            evidence = f"{' - '.join(claim.methods)}: {first} in {one}, {last} in {five}"
            yield f"{one}, {five}", (first - last).above(), evidence


def collapses(claim: Claim, results: Results) -> Found:
    """Yield for each pair of columns whether a strategy loses more than `COLLAPSE` with the sampler of the claim."""
    (strategy,) = claim.methods
    for usual in _columns(results):
        for other in _columns(results, claim.sampler, _sampler(results, usual).options.get("shot")):
            if gains := _gains(claim, results, usual, other):
                loss = gains[0] - gains[1]
                evidence = f"{strategy} loses {loss}; a collapse is more than {100 * COLLAPSE:.0f}"
                yield f"{usual}, {other}", loss.above(COLLAPSE), evidence


def few_steps(claim: Claim, results: Results, below: int) -> Found:
    """Yield for each column whether nearly all tasks take fewer steps than `below`."""
    for column in _columns(results):
        if by_seed := _runs(results, column, *claim.methods):
            steps = np.concatenate([scores.iterations for scores in by_seed.values()])
            share = float((steps < below).mean())
            evidence = f"{100 * share:.2f} % of tasks; {steps.mean():.1f} steps on average, {steps.max()} at most"
            yield column, "holds" if share > MOST_TASKS else "fails", evidence


def never_rises(claim: Claim, results: Results) -> Found:
    """Yield for each column of the claim whether the objective never rises, in any step of any task."""
    for column in _columns(results, claim.sampler):
        worst, tasks = -math.inf, 0
        for scores in _runs(results, column, *claim.methods).values():
            if (trace := scores.trace) is None:
                continue
            rises = np.diff(trace, axis=0) / np.maximum(np.abs(trace[:-1]), 1)
            worst = max(worst, float(np.nanmax(rises, initial=-math.inf)))
            tasks += trace.shape[1]
        if tasks:
            evidence = f"largest relative rise in a step: {max(worst, 0):.1e}, over {tasks} tasks"
            yield column, "holds" if worst <= ROUNDING else "fails", evidence
