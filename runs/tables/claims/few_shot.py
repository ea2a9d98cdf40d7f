"""Tests of claims about few-shot strategies, on the results of a table.

The strategies of a column have the same tasks, so two of them are compared task by task: a claim that one is better
holds where the 95 % interval of the mean difference lies above zero, fails where it lies below, and is a tie
in between. Columns have different tasks, so gains of different columns are compared as independent means. A table
with several benchmarks or networks is checked on each of them.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fsl.evaluation.scores import Evaluation
from runs.tables.claims.claim import Claim, check_claims, published_claims
from runs.tables.keys import settings_of
from runs.tables.table import Cell, ClaimStatus, Finding, Table

BySeed = Mapping[int, Evaluation]
"""The tracked runs of a cell, task by task."""
Z = 1.96  # of a 95 % interval; 10,000 tasks need no bootstrap


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
        if low > bound:
            return "holds"
        return "fails" if high < bound else "tie"

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"


def gain(better: BySeed, than: BySeed | None = None) -> Gain | None:
    """Mean over the seeds that both have, of the mean over tasks of the one's accuracy less the other's, which were
    given the same tasks; without another, of the one's accuracy. None where they have no seed in common, or other
    tasks."""
    seeds = sorted(better.keys() & (better if than is None else than).keys())
    values = []
    for seed in seeds:
        units = better[seed].by_unit
        other = np.zeros_like(units) if than is None else than[seed].by_unit
        if units.shape != other.shape:
            return None
        values.append(units - other)
    if not values:
        return None
    variances = [float(units.var()) / len(units) for units in values]
    return Gain(float(np.mean([units.mean() for units in values])), math.sqrt(sum(variances)) / len(values))


COLLAPSE = 0.10
"""A larger loss of accuracy is a collapse; the published loss of PT-MAP under Dirichlet queries is 0.17."""
MOST_TASKS = 0.95
"""A claim about tasks holds if it is true for a larger share of them."""
ROUNDING = 1e-6
"""Largest relative rise of the objective that counts as float32 rounding."""

Found = Iterator[tuple[str, ClaimStatus, str]]
"""Column, status and evidence."""


class FewShotResults:
    """The filled cells of one benchmark and network. The tasks of a cell are read when they are first needed.

    Args:
        cells: by column and strategy.
        read: reads the tasks of a filled cell.
    """

    def __init__(self, cells: Mapping[str, Mapping[str, Cell]], read: Callable[[Cell], BySeed]) -> None:
        self._read = read
        self.cells = {
            column: {name: cell for name, cell in of_column.items() if cell.results}
            for column, of_column in cells.items()
        }

    def columns(self, sampler: str = "balanced", shot: int | None = None) -> list[str]:
        """Return the columns with this sampler and number of shots; None: any number."""
        names = []
        for column, cells in self.cells.items():
            choices = [cell.few_shot.sampler for cell in cells.values() if cell.few_shot]
            if choices and choices[0].plugin == sampler and shot in (None, choices[0].options.get("shot")):
                names.append(column)
        return names

    def among(self, classes: Sequence[int]) -> set[str]:
        """Return the columns whose queries are drawn from a range of the named classes, its ends included."""
        asked = dict(zip(("classes_min", "classes_max"), classes, strict=True))
        return {
            column
            for column, cells in self.cells.items()
            if any(cell.few_shot and asked.items() <= cell.few_shot.sampler.options.items() for cell in cells.values())
        }

    def shot(self, column: str) -> int | None:
        """Return the number of shots of a column's tasks."""
        config = next(iter(self.cells[column].values())).few_shot
        return config.sampler.options.get("shot") if config else None

    def of(self, column: str, strategy: str) -> BySeed:
        """Return the results of a cell by seed; empty if the cell is not filled."""
        cell = self.cells[column].get(strategy)
        return self._read(cell) if cell else {}

    def gain(self, column: str, better: str, than: str) -> Gain | None:
        """Return the paired gain of one strategy over another on the tasks of their common seeds; None without a common
        seed."""
        return gain(self.of(column, better), self.of(column, than))

    def mean(self, column: str, strategy: str) -> Gain | None:
        """Return the mean accuracy; None if the cell is not filled."""
        return gain(self.of(column, strategy))


def check(table: Table, read: Callable[[Cell], BySeed]) -> list[Finding]:
    """Check every claim on every benchmark and network of a table.

    Args:
        read: reads the tasks of a filled cell, as `RunFiles.scores` does from the record.
    """
    settings = _settings(table)
    results = {name: FewShotResults(cells, read) for name, cells in settings.items()}

    def look(claim: Claim) -> Found:
        for name, of_setting in results.items():
            place = f" ({name})" if len(results) > 1 else ""
            yield from ((f"{column}{place}", status, evidence) for column, status, evidence in claim.check(of_setting))

    return check_claims(CLAIMS, look, lambda claim: any(_asked(claim, cells) for cells in settings.values()))


def _settings(table: Table) -> dict[str, dict[str, dict[str, Cell]]]:
    """Return the accuracy cells by benchmark and network (or files of features), column, and strategy.

    If a strategy has several rows, its first row is used, whether it is filled or not, so that all cells of the
    strategy have the same options.
    """
    settings: dict[str, dict[str, dict[str, Cell]]] = {}
    names: dict[tuple[tuple[str, str], ...], str] = {}
    for (_, column), cell in table.cells.items():
        config = cell.few_shot
        if config is None or column.metric != "accuracy":
            continue
        keys = settings_of(config)
        name = keys.get("features", f"{config.benchmark.name}/{config.backbone.name}")
        apart = ("strategy", "sampler", "tuning", "tasks", "audit", "prompt")
        setting = tuple(sorted((key, text) for key, text in keys.items() if key.partition(".")[0] not in apart))
        if setting not in names:
            again = sum(known.partition(" #")[0] == name for known in names.values())
            names[setting] = f"{name} #{again + 1}" if again else name
        settings.setdefault(names[setting], {}).setdefault(str(column), {}).setdefault(config.strategy.name, cell)
    return settings


def _asked(claim: Claim, cells: Mapping[str, Mapping[str, Cell]]) -> bool:
    """Return whether a column has all strategies of a claim, and the columns have its sampler and its shots."""
    samplers = [c.few_shot.sampler for column in cells.values() for c in column.values() if c.few_shot]
    return (
        any({*claim.methods} <= column.keys() for column in cells.values())
        and claim.sampler in ("", *(sampler.plugin for sampler in samplers))
        and {*claim.shots} <= {sampler.options.get("shot") for sampler in samplers}
    )


def better(claim: Claim, results: FewShotResults, classes: Sequence[int] = ()) -> Found:
    """Yield for each column of the claim whether the first strategy is better than the second.

    Args:
        classes: least and greatest number of the named classes that the queries are from; empty: any.
    """
    first, second = claim.methods
    columns = results.columns(claim.sampler or "balanced", *claim.shots)
    for column in [column for column in columns if not classes or column in results.among(classes)]:
        difference = results.gain(column, first, second)
        if difference is not None:
            yield column, difference.above(), f"{first} - {second}: {difference}"


def gain_shrinks(claim: Claim, results: FewShotResults) -> Found:
    """Yield for each pair of columns whether the first strategy gains more over the second with fewer shots."""
    few, many = (results.columns(shot=shot) for shot in claim.shots)
    for one, five in itertools.product(few, many):
        first, last = (results.gain(column, *claim.methods) for column in (one, five))
        if first is not None and last is not None:
            evidence = f"{' - '.join(claim.methods)}: {first} in {one}, {last} in {five}"
            yield f"{one}, {five}", (first - last).above(), evidence


def collapses(claim: Claim, results: FewShotResults) -> Found:
    """Yield for each pair of columns whether a strategy loses more than `COLLAPSE` with the sampler of the claim."""
    (strategy,) = claim.methods
    for usual in results.columns():
        for other in results.columns(claim.sampler, results.shot(usual)):
            before, after = results.mean(usual, strategy), results.mean(other, strategy)
            if before is not None and after is not None:
                loss = before - after
                evidence = f"{strategy} loses {loss}; a collapse is more than {100 * COLLAPSE:.0f}"
                yield f"{usual}, {other}", loss.above(COLLAPSE), evidence


def few_steps(claim: Claim, results: FewShotResults, below: int) -> Found:
    """Yield for each column whether nearly all tasks take fewer steps than `below`."""
    for column in results.columns():
        if by_seed := results.of(column, *claim.methods):
            steps = np.concatenate([scores.iterations for scores in by_seed.values()])
            share = float((steps < below).mean())
            evidence = f"{100 * share:.2f} % of tasks; {steps.mean():.1f} steps on average, {steps.max()} at most"
            yield column, "holds" if share > MOST_TASKS else "fails", evidence


def never_rises(claim: Claim, results: FewShotResults) -> Found:
    """Yield for each column of the claim whether the objective never rises, in any step of any task."""
    for column in results.columns(claim.sampler or "balanced"):
        worst, tasks = -math.inf, 0
        for scores in results.of(column, *claim.methods).values():
            if (trace := scores.trace) is None:
                continue
            rises = np.diff(trace, axis=0) / np.maximum(np.abs(trace[:-1]), 1)
            worst = max(worst, float(np.nanmax(rises, initial=-math.inf)))
            tasks += trace.shape[1]
        if tasks:
            evidence = f"largest relative rise in a step: {max(worst, 0):.1e}, over {tasks} tasks"
            yield column, "holds" if worst <= ROUNDING else "fails", evidence


CLAIMS = published_claims("few_shot", (better, gain_shrinks, collapses, few_steps, never_rises))
