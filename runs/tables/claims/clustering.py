"""Tests of claims about clustering, on the results of a table.

The papers selected each number by labels. A claim is therefore checked on what labels select, where the runs have it;
the evidence adds the result without labels. A difference that two printed digits could not show is a tie.
Claims of Zhang and Boykov about entropy clustering compare methods with the same starts start by start; in their paper
seeds differ by up to seven points.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from clustering.evaluation.protocol import ACCURACY
from runs.tables.claims.claim import Cells, Claim, Found, Results, by_setting, holds
from runs.tables.table import Cell, ClaimStatus, Table

if TYPE_CHECKING:
    from runs.stages.clustering.results import Trials

SHOWN = 0.005
"""Differences of NMI and accuracy below this are ties."""
ORDERS = (0.1, 0.5, 1.0, 5.0, 1000.0)
SURE = 2.0
"""Standard errors of the mean difference beyond which it is not due to chance."""
Accuracies = dict[int, float]
"""Of starts, by random state."""
SLK = ("slk_mean_shift", "slk_byproduct", "slk_means")


def settings(table: Table) -> dict[str, Cells]:
    """The clusterings by data set, with its variant and the number of known labels; by metric; and by method, with the
    order of its entropy."""

    def place(cell: Cell) -> tuple[str, str, str] | None:
        config = cell.clustering
        if config is None:
            return None
        options, order = config.dataset.options, config.method.options.get("order", 1)
        classes = options.get("classes")
        variant = options.get("features") or (f"{classes} classes" if isinstance(classes, int) else "")
        labels = f", {config.labels} labels" if config.asked_labels() is not None else ""
        name = f"{config.dataset.name}{f' ({variant})' if variant else ''}{labels}"
        return name, cell.metric, of_order(order) if config.method.name == "migd" else config.method.name

    return by_setting(table, place)


def of_order(order: float) -> str:
    """Name of the method that maximises the information of Renyi's entropy of an order."""
    return "migd" if order == 1 else f"migd, order {order:g}"


def higher(claim: Claim, results: Results, margin: float = 0.0) -> Found:
    """Whether the first method exceeds the second by `margin`."""
    if pair := results.pair(claim.metric, *claim.methods):
        difference = pair[0] - pair[1]
        status: ClaimStatus = "tie" if abs(difference - margin) <= SHOWN else holds(difference > margin)
        plain = [results.cells[claim.metric][method].value for method in claim.methods]
        at_least = f", of which {margin} is claimed" if margin else ""
        (better, than), without = claim.methods, f"without labels {plain[0]:.3f} and {plain[1]:.3f}"
        yield "", status, f"{better} {pair[0]:.3f}, {than} {pair[1]:.3f}: {difference:+.3f}{at_least}; {without}"


def lower(claim: Claim, results: Results) -> Found:
    """Whether the second method has no larger a value than the first: seconds, or an objective."""
    if pair := results.pair(claim.metric, *claim.methods):
        evidence = ", ".join(f"{method} {value:.6g}" for method, value in zip(claim.methods, pair, strict=True))
        yield "", holds(pair[1] <= pair[0]), evidence


def few_steps(claim: Claim, results: Results, most: int, every: bool = False) -> Found:
    """Whether the chosen start, or every one, ends after at most `most` steps."""
    found = results.of(*claim.methods)
    counts = sorted({int(n) for one in found for n in (one.iterations if every else one.iterations[[one.chosen]])})
    if counts:
        yield "", holds(counts[-1] <= most), f"steps: {' or '.join(map(str, counts))}"


def modes_are_points(claim: Claim, results: Results) -> Found:
    """Whether the modes are distinct points."""
    for rows in (trials.mode_indices for trials in results.of(*claim.methods)):
        if rows is not None:
            apart = len(np.unique(rows)) == len(rows) and bool((rows >= 0).all())
            yield "", holds(apart), f"rows {', '.join(map(str, rows.tolist()))}"


def alike(claim: Claim, results: Results, within: float) -> Found:
    """Whether the values of all variants of SLK differ by at most `within`."""
    cells = results.cells.get(claim.metric, {})
    known = {method: cells[method].compared for method in SLK if method in cells}
    if len(known) > 1:
        evidence = ", ".join(f"{method} {value:.3f}" for method, value in known.items())
        yield "", holds(max(known.values()) - min(known.values()) <= within), f"NMI {evidence}"


def above(claim: Claim, results: Results, labels: bool = False) -> Found:
    """Whether the first method has the higher accuracy, by the paired differences of starts and seeds.

    Args:
        labels: compare clusterings with known labels, on the points without; else clusterings without any labels.
    """
    ours, theirs = (_accuracies(results.of(name), labels=labels) for name in claim.methods)
    for status, difference in _paired(ours, theirs):
        evidence = f"{claim.methods[0]} {_mean(ours):.3f}, {claim.methods[1]} {_mean(theirs):.3f}; {difference}"
        yield "", status, evidence


def rises_with_order(claim: Claim, results: Results) -> Found:
    """Whether the accuracy rises with the order of Renyi's entropy: from each order to the next, and from the least to
    the greatest by more than chance."""
    by_order = {order: _accuracies(results.of(of_order(order)), labels=False) for order in ORDERS}
    means = {order: _mean(values) for order, values in by_order.items() if values}
    if len(means) > 1:
        rises = all(before <= after for before, after in itertools.pairwise(means.values()))
        listed = ", ".join(f"{order:g}: {mean:.3f}" for order, mean in means.items())
        for status, difference in _paired(by_order[max(means)], by_order[min(means)]):
            kept = "fails" if status == "holds" and not rises else status
            yield "", kept, f"{listed}; greatest over least {difference}"


def _paired(ours: Accuracies, theirs: Accuracies) -> Iterator[tuple[ClaimStatus, str]]:
    """Whether the first are higher, over the starts that both have; nothing for fewer than two starts."""
    pairs = np.array([ours[key] - theirs[key] for key in ours.keys() & theirs.keys()])
    if len(pairs) > 1:
        mean, error = float(pairs.mean()), float(pairs.std(ddof=1) / len(pairs) ** 0.5)
        status: ClaimStatus = "tie" if abs(mean) <= SURE * error else holds(mean > 0)
        yield status, f"of the same {len(pairs)} starts {mean:+.3f} ± {SURE * error:.3f}"


def _mean(values: Accuracies) -> float:
    return float(np.mean(list(values.values())))


def _accuracies(trials: "list[Trials]", *, labels: bool) -> Accuracies:
    """Accuracies of the starts at the given setting: with labels, of clusters that the labels name; without, under the
    best match of clusters and classes."""
    name = ACCURACY if labels else "acc_hungarian"
    alike = [one for one in trials if one.scores and (ACCURACY in one.scores) == labels]
    return {int(seed): float(one.scores[name][i]) for one in alike for i, seed in enumerate(one.seeds) if one.given[i]}
