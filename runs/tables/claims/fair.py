"""Tests of claims of the thesis about fair clustering, on the results of a table.

Paths are compared at equal fairness error, with linear interpolation between neighbouring weights: a lower objective
proves nothing where the clustering is less fair. Two errors are equal if two printed digits could not tell them apart.
Weights at which clusters are lost are left out, since the error is a sum over clusters.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runs.tables.claims.claim import Cells, Claim, Found, Results, by_setting, holds
from runs.tables.table import Cell, Table

if TYPE_CHECKING:
    from runs.stages.fair.results import Floats, TradeOff  # imports torch

SHOWN = 0.005
"""Largest difference of equal errors, and largest relative difference of equal objectives."""
NEAR = 0.05
"""Relative difference up to which an objective equals the printed one, as in the tables."""
MONOTONE = 0.7
"""Rank correlation from which on a value rises with the weight; below 1, since starts end in local minima."""
ROUNDING = 1e-9
"""Relative rise of E up to which it is rounding."""


def settings(table: Table) -> dict[str, Cells]:
    """The fair clusterings of a table by data set, metric and method."""

    def place(cell: Cell) -> tuple[str, str, str] | None:
        return (cell.fair.dataset.name, cell.metric, cell.fair.method.name) if cell.fair else None

    return by_setting(table, place)


def objective_at(path: "TradeOff", error: float) -> float | None:
    """The least objective of a path at a fairness error of up to SHOWN more; None where the path is nowhere that fair.

    Between neighbouring weights it is interpolated, unless a cluster lacks a group at one of them: there the error is
    bounded by its floor.
    """
    errors, objectives = path.error_of_all, path.objective
    reached = objectives[errors <= error + SHOWN].tolist()
    for i in range(len(errors) - 1):
        pair = errors[i : i + 2]
        if pair.min() <= error < pair.max() and not path.absent[i : i + 2].any():
            share = (error - pair[0]) / (pair[1] - pair[0])
            reached.append(float((1 - share) * objectives[i] + share * objectives[i + 1]))
    return min(reached) if reached else None


def monotone(claim: Claim, results: Results, values: str, sign: int) -> Found:
    """Whether an attribute of the paths rises (sign 1) or falls (-1) as the weight grows."""
    whole = [(path, np.isfinite(path.error_of_all)) for path in results.of(*claim.methods)]
    pairs = [(path.weights[there], getattr(path, values)[there]) for path, there in whole if there.sum() > 2]
    if pairs:
        correlations = [_rank_correlation(*pair) for pair in pairs]
        first, last = (np.mean([of[end] for _, of in pairs]) for end in (0, -1))
        ends = f"{first:.4g} at the least weight, {last:.4g} at the largest"
        always = min(sign * one for one in correlations) >= MONOTONE
        yield "", holds(always), f"rank correlation {_range(correlations)}; {ends}"


def _rank_correlation(first: "Floats", second: "Floats") -> float:
    """Spearman's rank correlation; 0 where all values are equal."""
    from scipy.stats import spearmanr

    return 0.0 if np.ptp(first) == 0 or np.ptp(second) == 0 else float(spearmanr(first, second).statistic)


def never_rises(claim: Claim, results: Results) -> Found:
    """Whether E rises in no update at one weight, relative to E."""
    rises = []
    for path in results.of(*claim.methods):
        E, weight, step = path.history_objective, path.history_weight, path.history_step
        same = (weight[1:] == weight[:-1]) & (step[1:] == step[:-1])
        rises.append(float((np.diff(E) / np.maximum(np.abs(E[:-1]), 1e-12))[same].max(initial=0.0)))
    if rises:
        evidence = f"largest rise {max(rises):.1e} of E from one update to the next at one weight"
        yield "", holds(max(rises) <= ROUNDING), evidence


def as_fair_as_printed(claim: Claim, results: Results) -> Found:
    """Whether each path reaches the printed fairness error."""
    printed, paths = results.printed("fairness_error", *claim.methods), results.of(*claim.methods)
    if printed and paths:
        errors = [float(np.nanmin([*path.error_of_all, np.inf])) for path in paths]
        reached = max(errors) <= printed[0] + printed[2]
        yield "", holds(reached), f"error {_range(errors)}, printed {printed[1]}"


def printed_where_fairest(claim: Claim, results: Results) -> Found:
    """Whether the rule of the thesis for the weight gives the printed objective, as does the weight at which a table is
    scored."""
    error, objective = (results.printed(name, *claim.methods) for name in ("fairness_error", "objective"))
    paths = [path for path in results.of(*claim.methods) if path.fairest is not None]
    if objective and error and paths:
        names = ("objective", "fairness_error", "weights")
        F, errors, weights = ([float(getattr(path, name)[path.chosen]) for path in paths] for name in names)
        found = f"{np.mean(F):.4g} at error {np.mean(errors):.2g}, weight {_range(weights)}"
        near = bool(abs(np.mean(F) - objective[0]) <= max(NEAR * abs(objective[0]), objective[2]))
        yield "", holds(near), f"{found}, against {objective[1]} printed, at error {error[1]}"


def no_larger(claim: Claim, results: Results) -> Found:
    """Whether the objective at the error of a rival, or at the printed error, is at most that of the rival, or the
    printed one."""
    method, *rival = claim.methods
    error, objective = (results.printed(name, method) for name in ("fairness_error", "objective"))
    if rival:
        theirs = results.of(*rival)
        if not theirs or any(path.fairest is None for path in theirs):
            return
        values = ([getattr(path, name)[path.chosen] for path in theirs] for name in ("error_of_all", "objective"))
        at, other = (float(np.mean(of)) for of in values)
        against, resolution = f"{rival[0]} {other:.4g}", 0.0
    elif error and objective:
        (at, *_), (other, text, resolution) = error, objective
        against = f"{text} printed"
    else:
        return
    if objectives := [objective_at(path, at) for path in results.of(method)]:
        known = [value for value in objectives if value is not None]
        evidence = f"{against}, at error up to {at + SHOWN:.4g}"
        if len(known) < len(objectives):
            lost = f"which {len(objectives) - len(known)} of {len(objectives)} paths do not reach"
            yield "", "fails", f"{evidence}, {lost}"
            return
        mean = float(np.mean(known))
        tied = abs(mean - other) <= max(SHOWN * abs(other), resolution)
        yield "", "tie" if tied else holds(mean < other), f"{mean:.4g} against {evidence}"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"
