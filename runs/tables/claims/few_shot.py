"""Tests of claims about few-shot strategies, on the results of a table.

The strategies of a column have the same tasks, so two of them are compared task by task: a claim that one is better
holds where the 95 % interval of the mean difference lies above zero, fails where it lies below, and is a tie
in between. Columns have different tasks, so gains of different columns are compared as independent means. A table
with several benchmarks or networks is checked on each of them.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fsl.evaluation.scores import Evaluation
from runs.config.groups import Choice
from runs.tables.claims.claim import Cells, Claim, Found, Results, by_setting, holds
from runs.tables.keys import settings_of
from runs.tables.table import Cell, ClaimStatus, Table

BySeed = Mapping[int, Evaluation]
"""The tracked runs of a cell, task by task."""
Z = 1.96  # of a 95 % interval; 10,000 tasks need no bootstrap
COLLAPSE = 0.10
"""A larger loss of accuracy is a collapse; the published loss of PT-MAP under Dirichlet queries is 0.17."""
MOST_TASKS = 0.95
"""A claim about tasks holds if it is true for a larger share of them."""
ROUNDING = 1e-6
"""Largest relative rise of the objective that counts as float32 rounding."""
APART = ("strategy", "sampler", "tuning", "tasks", "prompt")
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
    """The accuracy cells by benchmark and network (or files of features), column, and strategy."""
    names: dict[str, str] = {}

    def place(cell: Cell) -> tuple[str, str, str] | None:
        config = cell.few_shot
        if config is None or cell.metric != "accuracy":
            return None
        keys = settings_of(config)
        name = keys.get("features", f"{config.benchmark.name}/{config.backbone.name}")
        setting = str(sorted(item for item in keys.items() if item[0].partition(".")[0] not in APART))
        again = sum(known.partition(" #")[0] == name for known in names.values())
        names.setdefault(setting, f"{name} #{again + 1}" if again else name)
        return names[setting], cell.column_name, config.strategy.name

    return by_setting(table, place, first=True)  # all cells of a strategy have the same options


def _columns(results: Results, sampler: str = "", shot: int | None = None) -> list[tuple[str, Choice]]:
    """The filled columns with this sampler ("": balanced) and number of shots (None: any), and their samplers."""
    first = {column: next(iter(cells.values())).few_shot for column, cells in results.cells.items() if cells}
    samplers = [(column, config.sampler) for column, config in first.items() if config]
    return [
        (column, choice)
        for column, choice in samplers
        if choice.plugin == (sampler or "balanced") and shot in (None, choice.options.get("shot"))
    ]


def _gains(claim: Claim, results: Results, *columns: str) -> list[Gain]:
    """The accuracy of the claim's strategy in each column, or its paired gain over a second one on the tasks of their
    common seeds; nothing if a column lacks it."""
    gains = [gain(*(results.by_seed(method, column) for method in claim.methods)) for column in columns]
    return [one for one in gains if one is not None] if None not in gains else []


def better(claim: Claim, results: Results, classes: Sequence[int] = ()) -> Found:
    """Whether the first strategy is better than the second, in each column of the claim.

    Args:
        classes: least and greatest number of the named classes that the queries are from; empty: any.
    """
    asked = dict(zip(("classes_min", "classes_max"), classes, strict=False))
    for column, sampler in _columns(results, claim.sampler, *claim.shots):
        if asked.items() <= sampler.options.items():
            for difference in _gains(claim, results, column):
                yield column, difference.above(), f"{' - '.join(claim.methods)}: {difference}"


def gain_shrinks(claim: Claim, results: Results) -> Found:
    """Whether the first strategy gains more over the second with fewer shots, in each pair of columns."""
    few, many = (_columns(results, shot=shot) for shot in claim.shots)
    for (one, _), (five, _) in itertools.product(few, many):
        if gains := _gains(claim, results, one, five):
            first, last = gains
            evidence = f"{' - '.join(claim.methods)}: {first} in {one}, {last} in {five}"
            yield f"{one}, {five}", (first - last).above(), evidence


def collapses(claim: Claim, results: Results) -> Found:
    """Whether a strategy loses more than `COLLAPSE` with the sampler of the claim, in each pair of columns."""
    for usual, sampler in _columns(results):
        for other, _ in _columns(results, claim.sampler, sampler.options.get("shot")):
            if gains := _gains(claim, results, usual, other):
                loss = gains[0] - gains[1]
                evidence = f"{claim.methods[0]} loses {loss}; a collapse is more than {100 * COLLAPSE:.0f}"
                yield f"{usual}, {other}", loss.above(COLLAPSE), evidence


def few_steps(claim: Claim, results: Results, below: int) -> Found:
    """Whether nearly all tasks of a column take fewer steps than `below`."""
    for column, _ in _columns(results):
        if by_seed := results.by_seed(claim.methods[0], column):
            steps = np.concatenate([scores.iterations for scores in by_seed.values()])
            share = float((steps < below).mean())
            evidence = f"{100 * share:.2f} % of tasks; {steps.mean():.1f} steps on average, {steps.max()} at most"
            yield column, holds(share > MOST_TASKS), evidence


def never_rises(claim: Claim, results: Results) -> Found:
    """Whether the objective never rises, in any step of any task of a column."""
    for column, _ in _columns(results, claim.sampler):
        runs = results.by_seed(claim.methods[0], column).values()
        if traces := [scores.trace for scores in runs if scores.trace is not None]:
            rises = [np.diff(trace, axis=0) / np.maximum(np.abs(trace[:-1]), 1) for trace in traces]
            worst = max(float(np.nanmax(rise, initial=-math.inf)) for rise in rises)
            tasks = sum(trace.shape[1] for trace in traces)
            evidence = f"largest relative rise in a step: {max(worst, 0):.1e}, over {tasks} tasks"
            yield column, holds(worst <= ROUNDING), evidence
