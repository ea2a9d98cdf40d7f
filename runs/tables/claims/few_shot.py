"""What the papers claim of few-shot strategies, checked on the results of a table.

Strategies of a column were given the same tasks, so two of them are compared task by task: a claim that one is better
holds where the 95 % interval of the mean difference lies above zero, fails where it lies below, and is a tie
in between. Columns have tasks of their own, so gains of different columns are compared as independent means. A table
with several benchmarks or networks is checked on each of them.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from runs.stages.results import PER_TASK, Scores, recorded_scores
from runs.tables.claims.gains import BySeed, Gain, gain
from runs.tables.filling import result_keys
from runs.tables.table import Cell, SeedResult, Table

if TYPE_CHECKING:
    from runs.record.tracking import Tracker

Status = Literal["holds", "tie", "fails", "not run"]
COLLAPSE = 0.10
"""Loss of accuracy that is called a collapse; PT-MAP's published one under Dirichlet queries is 0.17."""
FEW_STEPS = 15
ROUNDING = 1e-6
"""Rise of the objective, relative to its size, that float32 may make."""


@dataclass(frozen=True)
class Finding:
    """What became of a claim in one setting.

    Attributes:
        claim: in a sentence.
        source: where it is made.
        setting: the column, or the columns, that it was checked on; empty where it was not run.
        status: holds, tie, fails; not run where the table has its strategies but not their runs.
        evidence: the numbers.
    """

    claim: str
    source: str
    setting: str
    status: Status
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A claim and its check, which gives (setting, status, evidence) wherever the results allow it.

    Attributes:
        text: in a sentence.
        source: where it is made.
        strategies: what it is about.
        check: looks at the results of one benchmark and network.
        sampler: the tasks it is about besides balanced ones; empty where there are none.
        shots: those that it is about; empty where it is about any.
    """

    text: str
    source: str
    strategies: tuple[str, ...]
    check: "Check"
    sampler: str = ""
    shots: tuple[int, ...] = ()


Check = Callable[["Outcomes"], Iterator[tuple[str, Status, str]]]


class Outcomes:
    """The filled cells of one benchmark and network, read when they are asked for.

    Args:
        cells: by column and strategy.
        read: the tasks of a filled cell.
    """

    def __init__(self, cells: Mapping[str, Mapping[str, Cell]], read: Callable[[Cell], BySeed]) -> None:
        self._read = read
        self.cells = {
            column: {name: cell for name, cell in found.items() if cell.results} for column, found in cells.items()
        }

    def columns(self, sampler: str = "balanced", shot: int | None = None) -> list[str]:
        """Columns of that kind of tasks."""
        found = []
        for column, cells in self.cells.items():
            choices = [cell.few_shot.sampler for cell in cells.values() if cell.few_shot]
            if choices and choices[0].plugin == sampler and shot in (None, choices[0].options.get("shot")):
                found.append(column)
        return found

    def shot(self, column: str) -> int | None:
        """The shots of a column's tasks."""
        config = next(iter(self.cells[column].values())).few_shot
        return config.sampler.options.get("shot") if config else None

    def of(self, column: str, strategy: str) -> BySeed:
        """The runs of a cell that is filled; of one that is not, none."""
        cell = self.cells[column].get(strategy)
        return self._read(cell) if cell else {}

    def gain(self, column: str, better: str, than: str) -> Gain | None:
        """Paired gain of one strategy over another, on the tasks of all seeds that both have; None without any."""
        return gain(self.of(column, better), self.of(column, than))

    def mean(self, column: str, strategy: str) -> Gain | None:
        """Mean accuracy; None where there is none."""
        return gain(self.of(column, strategy))


def check(table: Table, read: Callable[[Cell], BySeed]) -> list[Finding]:
    """Every claim on every setting for which the table has the runs; those it has the strategies for, but no runs, as
    not run.

    Args:
        read: the tasks of a filled cell; `PerTask` reads them from the record.
    """
    settings = _settings(table)
    outcomes = {name: Outcomes(cells, read) for name, cells in settings.items()}
    findings = []
    for claim in CLAIMS:
        found = [
            Finding(claim.text, claim.source, f"{setting}{f' ({name})' if len(outcomes) > 1 else ''}", status, evidence)
            for name, of_setting in outcomes.items()
            for setting, status, evidence in claim.check(of_setting)
        ]
        if not found and any(_asked(claim, cells) for cells in settings.values()):
            found = [Finding(claim.text, claim.source, "", "not run", "")]
        findings += found
    return findings


def _settings(table: Table) -> dict[str, dict[str, dict[str, Cell]]]:
    """Accuracy cells by benchmark and network, column, strategy. Of several rows of a strategy the first counts, filled
    or not, so that all are of the same options."""
    found: dict[str, dict[str, dict[str, Cell]]] = {}
    names: dict[tuple[tuple[str, str], ...], str] = {}
    for (_, column), cell in table.cells.items():
        config = cell.few_shot
        if config is None or column.metric != "accuracy":
            continue
        keys = result_keys(config)
        apart = ("strategy", "sampler", "tuning", "tasks", "audit")
        setting = tuple(sorted((key, text) for key, text in keys.items() if key.partition(".")[0] not in apart))
        if setting not in names:
            name = f"{config.benchmark.name}/{config.backbone.name}"
            again = sum(known.partition(" #")[0] == name for known in names.values())
            names[setting] = f"{name} #{again + 1}" if again else name
        found.setdefault(names[setting], {}).setdefault(str(column), {}).setdefault(config.strategy.name, cell)
    return found


def _asked(claim: Claim, cells: Mapping[str, Mapping[str, Cell]]) -> bool:
    """Whether some column has every strategy of a claim, and some the tasks it is about."""
    samplers = [c.few_shot.sampler for column in cells.values() for c in column.values() if c.few_shot]
    return (
        any({*claim.strategies} <= column.keys() for column in cells.values())
        and claim.sampler in ("", *(sampler.plugin for sampler in samplers))
        and {*claim.shots} <= {sampler.options.get("shot") for sampler in samplers}
    )


def _better(better: str, than: str, *, sampler: str = "balanced", shot: int | None = None) -> Check:
    def check(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
        for column in outcomes.columns(sampler, shot):
            found = outcomes.gain(column, better, than)
            if found is not None:
                yield column, found.above(), f"{better} - {than}: {found}"

    return check


def _gain_shrinks(better: str, than: str) -> Check:
    def check(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
        for one, five in itertools.product(outcomes.columns(shot=1), outcomes.columns(shot=5)):
            first, last = outcomes.gain(one, better, than), outcomes.gain(five, better, than)
            if first is not None and last is not None:
                evidence = f"{better} - {than}: {first} in {one}, {last} in {five}"
                yield f"{one}, {five}", (first - last).above(), evidence

    return check


def _collapses(strategy: str, sampler: str) -> Check:
    def check(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
        for usual in outcomes.columns():
            for other in outcomes.columns(sampler, outcomes.shot(usual)):
                before, after = outcomes.mean(usual, strategy), outcomes.mean(other, strategy)
                if before is not None and after is not None:
                    loss = before - after
                    evidence = f"{strategy} loses {loss}; a collapse is more than {100 * COLLAPSE:.0f}"
                    yield f"{usual}, {other}", loss.above(COLLAPSE), evidence

    return check


def _few_steps(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
    for column in outcomes.columns():
        if by_seed := outcomes.of(column, "laplacianshot"):
            steps = np.concatenate([scores.iterations for scores in by_seed.values()])
            share = float((steps < FEW_STEPS).mean())
            evidence = f"{100 * share:.2f} % of tasks; {steps.mean():.1f} steps on average, {steps.max()} at most"
            yield column, "holds" if share > 0.95 else "fails", evidence


def _never_rises(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
    for column in outcomes.columns():
        worst, tasks = -math.inf, 0
        for scores in outcomes.of(column, "laplacianshot").values():
            if (trace := scores.trace) is None:
                continue
            rises = np.diff(trace, axis=0) / np.maximum(np.abs(trace[:-1]), 1)
            worst = max(worst, float(np.nanmax(rises, initial=-math.inf)))
            tasks += trace.shape[1]
        if tasks:
            evidence = f"largest relative rise in a step: {max(worst, 0):.1e}, over {tasks} tasks"
            yield column, "holds" if worst <= ROUNDING else "fails", evidence


class PerTask:
    """Reads the runs of cells task by task, each once; one that is gone from the record or damaged is left out, and
    said. To be called with a cell."""

    def __init__(self, tracker: "Tracker") -> None:
        self._tracker = tracker
        self._known: dict[str, Scores | None] = {}

    def __call__(self, cell: Cell) -> BySeed:
        found = {result.seed: self._one(result) for result in cell.results}
        return {seed: scores for seed, scores in found.items() if scores is not None}

    def _one(self, result: SeedResult) -> Scores | None:
        if result.run_id not in self._known:
            self._known[result.run_id] = None
            try:
                scores = recorded_scores(self._tracker, result.run_id, result.value, result.artifacts)
                self._known[result.run_id] = scores
            except ValueError as error:
                self._tracker.say(
                    f"{PER_TASK} of run {result.run_id} is no longer whole ({error}): no claim is checked on it"
                )
        return self._known[result.run_id]


_CHAIN = ("slk_ms", "slk_means", "kmodes", "kmeans", "laplacianshot")
_PLAIN, _RECTIFIED = "laplacianshot_plain_prototypes", "rectified_prototypes"


def _compared(
    text: str, source: str, better: str, than: str, *, sampler: str = "balanced", shot: int | None = None
) -> Claim:
    """That one strategy is better than another."""
    about = "" if sampler == "balanced" else sampler
    return Claim(
        text, source, (better, than), _better(better, than, sampler=sampler, shot=shot), about, (shot,) if shot else ()
    )


def _shrinking(text: str, source: str, better: str, than: str) -> Claim:
    """That the gain of one strategy over another is larger in 1-shot than in 5-shot."""
    return Claim(text, source, (better, than), _gain_shrinks(better, than), shots=(1, 5))


CLAIMS: tuple[Claim, ...] = (
    _compared("LaplacianShot is better than SimpleShot", "thesis Tables 4.1, 4.2", "laplacianshot", "simpleshot"),
    _compared("the Laplacian term helps plain prototypes", "thesis Table 4.4", _PLAIN, "simpleshot"),
    _compared("the Laplacian term helps rectified prototypes", "thesis Table 4.4", "laplacianshot", _RECTIFIED),
    _shrinking("the Laplacian term helps plain prototypes more in 1-shot", "thesis Table 4.4", _PLAIN, "simpleshot"),
    _shrinking(
        "the Laplacian term helps rectified prototypes more in 1-shot", "thesis Table 4.4", "laplacianshot", _RECTIFIED
    ),
    _compared(
        "in 1-shot rectification helps more than the Laplacian term", "thesis Table 4.4", _RECTIFIED, _PLAIN, shot=1
    ),
    *(
        _compared(f"in 1-shot {better} is better than {than}", "journal Table II, ResNet-18", better, than, shot=1)
        for better, than in itertools.pairwise(_CHAIN)
    ),
    *(
        _shrinking(
            f"the gain of {strategy} over SimpleShot shrinks from 1-shot to 5-shot",
            "journal Table II",
            strategy,
            "simpleshot",
        )
        for strategy in _CHAIN
    ),
    Claim(
        "PT-MAP collapses under Dirichlet queries",
        "Veilleux et al. 2021",
        ("pt_map",),
        _collapses("pt_map", "dirichlet"),
        "dirichlet",
    ),
    _compared(
        "alpha-TIM stays above SimpleShot under Dirichlet queries",
        "Veilleux et al. 2021",
        "alpha_tim",
        "simpleshot",
        sampler="dirichlet",
    ),
    Claim(
        f"LaplacianShot converges in fewer than {FEW_STEPS} steps",
        "thesis section 4.3",
        ("laplacianshot",),
        _few_steps,
    ),
    Claim("the objective of LaplacianShot never rises", "thesis section 4.2", ("laplacianshot",), _never_rises),
)
