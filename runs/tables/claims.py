"""What the papers claim of few-shot strategies, checked on the results of a table.

Strategies of a column were given the same tasks, so two of them are compared task by task: a claim that one is better
holds where the 95 % bootstrap interval of the mean difference lies above zero, fails where it lies below, and is a tie
in between. Columns have tasks of their own, so gains of different columns are compared as independent means.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fsl.paired import Paired
from runs.results import PER_TASK, Scores, recorded_scores
from runs.tables.grid import Cell, Table

if TYPE_CHECKING:
    from runs.tracking import Tracker

Status = Literal["holds", "tie", "fails"]
COLLAPSE = 0.10
"""Loss of accuracy that is called a collapse; PT-MAP's published one under Dirichlet queries is 0.17."""
FEW_STEPS = 15
ROUNDING = 1e-6
"""Rise of the objective, relative to its size, that float32 may make."""


@dataclass(frozen=True)
class Verdict:
    """What became of a claim in one setting.

    Attributes:
        claim: in a sentence.
        source: where it is made.
        setting: the column, or the columns, that it was checked on.
        status: holds, tie or fails.
        evidence: the numbers.
    """

    claim: str
    source: str
    setting: str
    status: Status
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A claim and its check, which gives (setting, status, evidence) wherever the results allow it."""

    text: str
    source: str
    check: Callable[["Outcomes"], Iterator[tuple[str, Status, str]]]


@dataclass(frozen=True, eq=False)
class Gain:
    """A mean, or the difference of two, with its bootstrap samples. Fractions."""

    value: float
    samples: NDArray[np.float64]

    def __sub__(self, other: "Gain") -> "Gain":
        """The difference of two independent ones."""
        count = min(len(self.samples), len(other.samples))
        return Gain(self.value - other.value, self.samples[:count] - other.samples[:count])

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        low, high = np.quantile(self.samples, (0.025, 0.975))
        return float(low), float(high)

    def above(self, bound: float = 0.0) -> Status:
        """Whether it lies above `bound`: holds, fails, or a tie where the interval holds the bound."""
        low, high = self.interval
        if low > bound:
            return "holds"
        return "fails" if high < bound else "tie"

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"


BySeed = Mapping[int, Scores]
"""The tracked runs of a cell, task by task."""


class Outcomes:
    """The filled cells of a table, read when they are asked for. Of several rows of a strategy the first counts, filled
    or not, so that all are of the same benchmark and backbone."""

    def __init__(self, table: Table, read: Callable[[Cell], BySeed]) -> None:
        self._read = read
        self._known: dict[tuple[str, str], BySeed] = {}
        self._resampled: dict[tuple[str, tuple[int, ...]], tuple[list[str], Paired]] = {}
        self.cells: dict[str, dict[str, Cell]] = {column: {} for column in table.columns}
        for (_, column), cell in table.cells.items():
            self.cells[column].setdefault(cell.config.strategy.name, cell)  # the first, which all strategies share
        for column, cells in self.cells.items():
            self.cells[column] = {name: cell for name, cell in cells.items() if cell.results}

    def columns(self, sampler: str = "balanced", shot: int | None = None) -> list[str]:
        """Columns of that kind of tasks."""
        found = []
        for column, cells in self.cells.items():
            choices = [cell.config.sampler for cell in cells.values()]
            if choices and choices[0].plugin == sampler and shot in (None, choices[0].options.get("shot")):
                found.append(column)
        return found

    def shot(self, column: str) -> int | None:
        """The shots of a column's tasks."""
        found: int | None = next(iter(self.cells[column].values())).config.sampler.options.get("shot")
        return found

    def have(self, column: str, *strategies: str) -> bool:
        """Whether these strategies have runs there, of the same seeds."""
        return all(strategy in self.cells[column] for strategy in strategies) and bool(self._seeds(column, *strategies))

    def of(self, column: str, strategy: str) -> BySeed:
        """The runs of a cell that is filled."""
        if (column, strategy) not in self._known:
            self._known[column, strategy] = self._read(self.cells[column][strategy])
        return self._known[column, strategy]

    def gain(self, column: str, better: str, than: str) -> Gain:
        """Paired gain of one strategy over another, on the tasks of all seeds that both have."""
        return self._mean(column, self._seeds(column, better, than), better, than)

    def mean(self, column: str, strategy: str) -> Gain:
        """Mean accuracy."""
        return self._mean(column, self._seeds(column, strategy), strategy)

    def _seeds(self, column: str, *strategies: str) -> tuple[int, ...]:
        return tuple(sorted(set.intersection(*({*self.of(column, strategy)} for strategy in strategies))))

    def _mean(self, column: str, seeds: tuple[int, ...], first: str, second: str | None = None) -> Gain:
        names, paired = self._paired(column, seeds)
        i = names.index(first)
        if second is None:
            return Gain(float(np.mean([a[:, i].mean() for a in paired.accuracies])), paired.resampled_means[:, i])
        j = names.index(second)
        samples = paired.resampled_means[:, i] - paired.resampled_means[:, j]
        return Gain(paired.difference(i, j).mean, samples)

    def _paired(self, column: str, seeds: tuple[int, ...]) -> tuple[list[str], Paired]:
        """All strategies of a column that have these seeds: resampled once, for all claims."""
        if (column, seeds) not in self._resampled:
            names = [name for name in self.cells[column] if {*seeds} <= {*self.of(column, name)}]
            units = [np.stack([self.of(column, name)[seed].by_unit for name in names], axis=1) for seed in seeds]
            self._resampled[column, seeds] = names, Paired(units)
        return self._resampled[column, seeds]


def check(table: Table, read: Callable[[Cell], BySeed]) -> list[Verdict]:
    """Every claim on every setting for which the table has the runs.

    Args:
        read: the tasks of a filled cell; `from_record` reads them from MLflow.
    """
    outcomes = Outcomes(table, read)
    return [
        Verdict(claim.text, claim.source, setting, status, evidence)
        for claim in CLAIMS
        for setting, status, evidence in claim.check(outcomes)
    ]


def _better(
    better: str, than: str, *, sampler: str = "balanced", shot: int | None = None
) -> Callable[[Outcomes], Iterator[tuple[str, Status, str]]]:
    def check(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
        for column in outcomes.columns(sampler, shot):
            if outcomes.have(column, better, than):
                gain = outcomes.gain(column, better, than)
                yield column, gain.above(), f"{better} - {than}: {gain}"

    return check


def _gain_shrinks(better: str, than: str) -> Callable[[Outcomes], Iterator[tuple[str, Status, str]]]:
    def check(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
        for one in outcomes.columns(shot=1):
            for five in outcomes.columns(shot=5):
                if outcomes.have(one, better, than) and outcomes.have(five, better, than):
                    first, last = outcomes.gain(one, better, than), outcomes.gain(five, better, than)
                    evidence = f"{better} - {than}: {first} in {one}, {last} in {five}"
                    yield f"{one}, {five}", (first - last).above(), evidence

    return check


def _collapses(strategy: str, sampler: str) -> Callable[[Outcomes], Iterator[tuple[str, Status, str]]]:
    def check(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
        for usual in outcomes.columns():
            for other in outcomes.columns(sampler, outcomes.shot(usual)):
                if outcomes.have(usual, strategy) and outcomes.have(other, strategy):
                    loss = outcomes.mean(usual, strategy) - outcomes.mean(other, strategy)
                    evidence = f"{strategy} loses {loss}; a collapse is more than {100 * COLLAPSE:.0f}"
                    yield f"{usual}, {other}", loss.above(COLLAPSE), evidence

    return check


def _few_steps(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
    for column in outcomes.columns():
        if outcomes.have(column, "laplacianshot"):
            steps = np.concatenate([scores.iterations for scores in outcomes.of(column, "laplacianshot").values()])
            share = float((steps < FEW_STEPS).mean())
            evidence = f"{100 * share:.2f} % of tasks; {steps.mean():.1f} steps on average, {steps.max()} at most"
            yield column, "holds" if share > 0.95 else "fails", evidence


def _never_rises(outcomes: Outcomes) -> Iterator[tuple[str, Status, str]]:
    for column in outcomes.columns():
        if outcomes.have(column, "laplacianshot"):
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


def from_record(cell: Cell, tracker: "Tracker") -> BySeed:
    """The runs of a cell, task by task; one whose tasks are gone from the record or damaged is left out, and said."""
    found = {}
    for result in cell.results:
        try:
            found[result.seed] = recorded_scores(tracker, result.run_id, result.accuracy)
        except ValueError as error:
            tracker.say(f"{PER_TASK} of run {result.run_id} is no longer whole ({error}): no claim is checked on it")
    return found


_CHAIN = ("slk_ms", "slk_means", "kmodes", "kmeans", "laplacianshot")
_PLAIN, _RECTIFIED = "laplacianshot_plain_prototypes", "rectified_prototypes"

CLAIMS: tuple[Claim, ...] = (
    Claim("LaplacianShot is better than SimpleShot", "thesis Tables 4.1, 4.2", _better("laplacianshot", "simpleshot")),
    Claim("the Laplacian term helps plain prototypes", "thesis Table 4.4", _better(_PLAIN, "simpleshot")),
    Claim("the Laplacian term helps rectified prototypes", "thesis Table 4.4", _better("laplacianshot", _RECTIFIED)),
    Claim(
        "the Laplacian term helps plain prototypes more in 1-shot",
        "thesis Table 4.4",
        _gain_shrinks(_PLAIN, "simpleshot"),
    ),
    Claim(
        "the Laplacian term helps rectified prototypes more in 1-shot",
        "thesis Table 4.4",
        _gain_shrinks("laplacianshot", _RECTIFIED),
    ),
    Claim(
        "in 1-shot rectification helps more than the Laplacian term",
        "thesis Table 4.4",
        _better(_RECTIFIED, _PLAIN, shot=1),
    ),
    *(
        Claim(f"in 1-shot {better} is better than {than}", "journal Table II, ResNet-18", _better(better, than, shot=1))
        for better, than in itertools.pairwise(_CHAIN)
    ),
    *(
        Claim(
            f"the gain of {strategy} over SimpleShot shrinks from 1-shot to 5-shot",
            "journal Table II",
            _gain_shrinks(strategy, "simpleshot"),
        )
        for strategy in _CHAIN
    ),
    Claim("PT-MAP collapses under Dirichlet queries", "Veilleux et al. 2021", _collapses("pt_map", "dirichlet")),
    Claim(
        "alpha-TIM stays above SimpleShot under Dirichlet queries",
        "Veilleux et al. 2021",
        _better("alpha_tim", "simpleshot", sampler="dirichlet"),
    ),
    Claim(f"LaplacianShot converges in fewer than {FEW_STEPS} steps", "thesis section 4.3", _few_steps),
    Claim("the objective of LaplacianShot never rises", "thesis section 4.2", _never_rises),
)
