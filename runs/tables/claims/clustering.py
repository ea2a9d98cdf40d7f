"""Tests of claims about clustering, on the results of a table.

The papers selected each number by labels. A claim is therefore checked on what labels select, where the runs have it;
the evidence adds the result without labels. A difference that two printed digits could not show is a tie.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from runs.config.configs import ClusterConfig
from runs.stages.clustering.results import Trials
from runs.tables.claims import entropy
from runs.tables.claims.claim import Cells, Claim, check_by_dataset, published_claims
from runs.tables.claims.entropy import Found
from runs.tables.table import Cell, SeedResult, Table
from runs.tables.verdicts import ClaimStatus, Finding

SHOWN = 0.005
"""Differences of NMI and accuracy below this are ties."""
SLK = ("slk_mean_shift", "slk_byproduct", "slk_means")


@dataclass(frozen=True)
class ClusteringResults:
    """The filled cells of one data set.

    Attributes:
        dataset: its name.
        cells: by metric and method.
        read: reads the trials of a run.
    """

    dataset: str
    cells: Cells
    read: Callable[[SeedResult], Trials | None]

    def value(self, metric: str, method: str) -> float | None:
        """The result scored as the papers did; else the result without labels."""
        cell = self.cells.get(metric, {}).get(method)
        if cell is None:
            return None
        return cell.as_printed if cell.scored else cell.value

    def pair(self, metric: str, first: str, second: str) -> tuple[float, float] | None:
        """The values of two methods; None where one is missing."""
        values = self.value(metric, first), self.value(metric, second)
        return None if values[0] is None or values[1] is None else (values[0], values[1])

    def plain(self, metric: str, method: str) -> float:
        """The result without labels."""
        return self.cells[metric][method].value

    def trials(self, method: str) -> list[Trials]:
        """The trials of every seed that the record has."""
        cells = [of_metric[method] for of_metric in self.cells.values() if method in of_metric]
        read = [self.read(result) for result in (cells[0].results if cells else ())]
        return [trials for trials in read if trials is not None]


def check(table: Table, read: Callable[[SeedResult], Trials | None]) -> list[Finding]:
    """Check every claim on the clusterings of a table, by data set.

    Args:
        read: reads the trials of a run; None where they are not whole.
    """
    return check_by_dataset(table, CLAIMS, _place, lambda dataset, cells: ClusteringResults(dataset, cells, read))


def _place(cell: Cell) -> tuple[str, str] | None:
    config = cell.clustering
    return (_name(config), _method(config)) if config is not None else None


def _name(config: ClusterConfig) -> str:
    """Name of a data set, with its variant and the number of known labels."""
    options = config.dataset.options
    classes = options.get("classes")
    variant = options.get("features") or (f"{classes} classes" if isinstance(classes, int) else "")
    labels = f", {config.labels} labels" if config.asked_labels() is not None else ""
    return f"{config.dataset.name}{f' ({variant})' if variant else ''}{labels}"


def _method(config: ClusterConfig) -> str:
    """Name of a method, with the order of its entropy."""
    order = config.method.options.get("order", 1)
    return entropy.of_order(order) if config.method.name == "migd" else config.method.name


def higher(claim: Claim, results: ClusteringResults, margin: float = 0.0) -> Found:
    """Whether the first method exceeds the second by `margin`."""
    better, than = claim.methods
    pair = results.pair(claim.metric, better, than)
    if pair is not None:
        difference = pair[0] - pair[1]
        tied = abs(difference - margin) <= SHOWN
        status: ClaimStatus = "tie" if tied else "holds" if difference > margin else "fails"
        without = (
            f"without labels {results.plain(claim.metric, better):.3f} and {results.plain(claim.metric, than):.3f}"
        )
        at_least = f", of which {margin} is claimed" if margin else ""
        yield status, f"{better} {pair[0]:.3f}, {than} {pair[1]:.3f}: {difference:+.3f}{at_least}; {without}"


def faster(claim: Claim, results: ClusteringResults) -> Found:
    """Whether the second method takes fewer seconds than the first."""
    pair = results.pair(claim.metric, *claim.methods)
    if pair is not None:
        evidence = f"{pair[0]:.3g} s and {pair[1]:.3g} s: {pair[0] / pair[1]:.1f} times"
        yield "holds" if pair[1] < pair[0] else "fails", evidence


def no_higher(claim: Claim, results: ClusteringResults) -> Found:
    """Whether SLK-MS reaches no higher an objective than LK."""
    pair = results.pair(claim.metric, *claim.methods)
    if pair is not None:
        yield "holds" if pair[1] <= pair[0] else "fails", f"LK {pair[0]:.6g}, SLK-MS {pair[1]:.6g}"


def few_updates(claim: Claim, results: ClusteringResults, most: int) -> Found:
    """Whether the modes stop after `most` updates."""
    counts = [int(trials.iterations[trials.chosen]) for trials in results.trials(*claim.methods)]
    if counts:
        evidence = f"{', '.join(map(str, counts))} updates of the modes"
        yield "holds" if max(counts) <= most else "fails", evidence


def modes_are_points(claim: Claim, results: ClusteringResults) -> Found:
    """Whether the modes are distinct points."""
    for trials in results.trials(*claim.methods):
        if trials.mode_indices is not None:
            rows = trials.mode_indices
            apart = len(np.unique(rows)) == len(rows) and bool((rows >= 0).all())
            yield "holds" if apart else "fails", f"rows {', '.join(map(str, rows.tolist()))}"


def alike(claim: Claim, results: ClusteringResults, within: float) -> Found:
    """Whether the values of all variants of SLK differ by at most `within`."""
    values = {method: results.value(claim.metric, method) for method in SLK}
    known = {method: value for method, value in values.items() if value is not None}
    if len(known) > 1:
        spread = max(known.values()) - min(known.values())
        evidence = ", ".join(f"{method} {value:.3f}" for method, value in known.items())
        yield "holds" if spread <= within else "fails", f"NMI {evidence}"


OF_ENTROPY = (entropy.above, entropy.rises_with_order, entropy.faster_solver, entropy.few_steps)
CLAIMS = published_claims("clustering", (higher, faster, no_higher, few_updates, modes_are_points, alike, *OF_ENTROPY))
