"""What the thesis claims of fair clustering, checked on the results of a table.

Paths are compared at equal fairness error, along straight lines between neighbouring weights: a method that has the
lower objective where it is less fair has shown nothing. An error that two printed digits could not tell from another is
equal to it. Weights at which clusters are lost count nowhere: the error is a sum over clusters.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runs.stages.fair.results import Floats, TradeOff
from runs.tables.claims.clustering_claim import Cells, Claim, checked
from runs.tables.claims.few_shot import Finding, Status
from runs.tables.table import Cell, SeedResult, Table

if TYPE_CHECKING:
    from runs.tables.papers.printed import Value

SHOWN = 0.005
"""Errors that differ by no more are equal, and so are objectives, relative to each other."""
NEAR = 0.05
"""Relative difference of an objective from a printed one that is the same, as of the tables."""
MONOTONE = 0.7
"""Rank correlation from which on something is said to rise with the weight: starts end in local minima."""
ROUNDING = 1e-9
"""Of E: a rise below this is none."""

Check = Callable[["Results"], Iterator[tuple[Status, str]]]


@dataclass(frozen=True)
class Results:
    """The filled cells of one data set.

    Attributes:
        cells: by metric and method.
        read: the trade-off of a run.
    """

    cells: Cells
    read: Callable[[SeedResult], TradeOff | None]

    def paths(self, method: str) -> list[TradeOff]:
        """Of every seed, where the record has them."""
        cell = self.cells.get("objective", {}).get(method)
        found = [self.read(result) for result in (cell.results if cell else ())]
        return [path for path in found if path is not None]

    def printed(self, metric: str, method: str) -> "Value | None":
        """The number of the paper."""
        cell = self.cells.get(metric, {}).get(method)
        return cell.published if cell else None


def check(table: Table, read: Callable[[SeedResult], TradeOff | None]) -> list[Finding]:
    """The claims on the fair clusterings of a table, see `clustering_claim.checked`.

    Args:
        read: the trade-off of a run; None where it is not whole.
    """
    return checked(table, CLAIMS, _place, lambda _, cells: Results(cells, read))


def _place(cell: Cell) -> tuple[str, str] | None:
    return (cell.fair.dataset.name, cell.fair.method.name) if cell.fair is not None else None


def objective_at(path: TradeOff, error: float) -> float | None:
    """The least objective of a path at an error of up to SHOWN more, between neighbouring weights in proportion; None
    where the path is nowhere that fair. Where a cluster lacks a group the floor of the error decides, and nothing lies
    between."""
    errors, objectives = path.error_of_all, path.objective
    found = objectives[errors <= error + SHOWN].tolist()
    for i in range(len(errors) - 1):
        pair = errors[i : i + 2]
        if pair.min() <= error < pair.max() and not path.absent[i : i + 2].any():
            share = (error - pair[0]) / (pair[1] - pair[0])
            found.append(float((1 - share) * objectives[i] + share * objectives[i + 1]))
    return min(found) if found else None


def _with_weight(method: str, values: Callable[[TradeOff], Floats], sign: int) -> Check:
    def look(results: Results) -> Iterator[tuple[Status, str]]:
        whole = [(path, np.isfinite(path.error_of_all)) for path in results.paths(method)]
        pairs = [(path.weights[there], values(path)[there]) for path, there in whole if there.sum() > 2]
        if pairs:
            found = [_rank_correlation(*pair) for pair in pairs]
            means = [np.mean([of[end] for _, of in pairs]) for end in (0, -1)]
            evidence = (
                f"rank correlation {_range(found)}; {means[0]:.4g} at the least weight, {means[1]:.4g} at the largest"
            )
            yield "holds" if min(sign * one for one in found) >= MONOTONE else "fails", evidence

    return look


def _rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's; of values that are all equal 0."""
    from scipy.stats import rankdata

    ranks = rankdata(first), rankdata(second)
    if any(np.ptp(of) == 0 for of in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _never_rises(method: str) -> Check:
    def look(results: Results) -> Iterator[tuple[Status, str]]:
        rises = [_largest_rise(path) for path in results.paths(method)]
        if rises:
            evidence = f"largest rise {max(rises):.1e} of E from one update to the next at one weight"
            yield "holds" if max(rises) <= ROUNDING else "fails", evidence

    return look


def _largest_rise(path: TradeOff) -> float:
    """From one update to the next at one weight, relative to E."""
    E, weight, step = path.history_objective, path.history_weight, path.history_step
    same = (weight[1:] == weight[:-1]) & (step[1:] == step[:-1])
    rises = (np.diff(E) / np.maximum(np.abs(E[:-1]), 1e-12))[same]
    return float(max(rises.max(initial=0.0), 0.0))


def _as_fair_as_printed(method: str) -> Check:
    def look(results: Results) -> Iterator[tuple[Status, str]]:
        printed, paths = results.printed("fairness_error", method), results.paths(method)
        if printed is not None and paths:
            errors = [float(np.nanmin([*path.error_of_all, np.inf])) for path in paths]
            evidence = f"error {_range(errors)}, printed {printed.printed}"
            yield "holds" if max(errors) <= printed.value + printed.resolution else "fails", evidence

    return look


def _no_dearer_than_printed(method: str) -> Check:
    def look(results: Results) -> Iterator[tuple[Status, str]]:
        error, objective = results.printed("fairness_error", method), results.printed("objective", method)
        if error is not None and objective is not None:
            found = [objective_at(path, error.value) for path in results.paths(method)]
            if found:
                evidence = f"{objective.printed} printed, at error up to {error.value + SHOWN:.4g}"
                yield _no_dearer(found, objective.value, evidence, objective.resolution)

    return look


def _printed_where_fairest(method: str) -> Check:
    """The rule of the thesis for the weight, beside the weight at which a table is scored, which matches."""

    def look(results: Results) -> Iterator[tuple[Status, str]]:
        objective, error = results.printed("objective", method), results.printed("fairness_error", method)
        paths = [path for path in results.paths(method) if path.fairest is not None]
        if objective is not None and error is not None and paths:
            F = [float(path.objective[path.chosen]) for path in paths]
            errors = [float(path.fairness_error[path.chosen]) for path in paths]
            weights = [float(path.weights[path.chosen]) for path in paths]
            evidence = (
                f"{np.mean(F):.4g} at error {np.mean(errors):.2g}, weight {_range(weights)}, against "
                f"{objective.printed} printed, at error {error.printed}"
            )
            near = abs(np.mean(F) - objective.value) <= max(NEAR * abs(objective.value), objective.resolution)
            yield "holds" if near else "fails", evidence

    return look


def _no_dearer_than(method: str, rival: str) -> Check:
    def look(results: Results) -> Iterator[tuple[Status, str]]:
        ours, theirs = results.paths(method), results.paths(rival)
        if ours and theirs and all(path.fairest is not None for path in theirs):
            error = float(np.mean([path.error_of_all[path.chosen] for path in theirs]))
            objective = float(np.mean([path.objective[path.chosen] for path in theirs]))
            found = [objective_at(path, error) for path in ours]
            yield _no_dearer(found, objective, f"{rival} {objective:.4g}, at error up to {error + SHOWN:.4g}")

    return look


def _no_dearer(
    found: Sequence[float | None], other: float, evidence: str, resolution: float = 0.0
) -> tuple[Status, str]:
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return "fails", f"{evidence}, which {len(found) - len(known)} of {len(found)} paths do not reach"
    mean = float(np.mean(known))
    evidence = f"{mean:.4g} against {evidence}"
    if abs(mean - other) <= max(SHOWN * abs(other), resolution):
        return "tie", evidence
    return "holds" if mean < other else "fails", evidence


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


_RIVALS = {"fair_kmedian": ("backurs", "thesis Table 3.2"), "fair_ncut": ("kleindessner", "thesis Table 3.3")}
_CURVES = {"fair_kmedian": "thesis Figure 3.1, of Fair K-means", "fair_ncut": "thesis Figure 3.1"}
_DRAWN = ("synthetic_unequal", "adult_thesis", "bank_thesis")
CLAIMS: tuple[Claim[Results], ...] = (
    *(
        Claim(
            f"the fairness error of {ours} falls as the weight grows",
            source,
            (ours,),
            _with_weight(ours, lambda path: path.fairness_error, -1),
            _DRAWN,
        )
        for ours, source in _CURVES.items()
    ),
    *(
        Claim(
            f"the objective of {ours} rises as the weight grows",
            source,
            (ours,),
            _with_weight(ours, lambda path: path.objective, 1),
            _DRAWN,
        )
        for ours, source in _CURVES.items()
    ),
    *(
        Claim(f"E of {ours} never rises", "thesis Figure 3.2", (ours,), _never_rises(ours), ("synthetic",))
        for ours in _CURVES
    ),
    *(
        Claim(f"{ours} is as fair as is printed", source, (ours,), _as_fair_as_printed(ours))
        for ours, (_, source) in _RIVALS.items()
    ),
    *(
        Claim(
            f"at the printed error {ours} has no larger an objective than is printed",
            source,
            (ours,),
            _no_dearer_than_printed(ours),
        )
        for ours, (_, source) in _RIVALS.items()
    ),
    *(
        Claim(
            f"the smallest weight of the least error gives {ours} the printed objective",
            source,
            (ours,),
            _printed_where_fairest(ours),
        )
        for ours, (_, source) in _RIVALS.items()
    ),
    *(
        Claim(
            f"at the error of {rival} {ours} has no larger an objective",
            source,
            (ours, rival),
            _no_dearer_than(ours, rival),
        )
        for ours, (rival, source) in _RIVALS.items()
    ),
)
