"""Tests of claims about clustering, on the results of a table.

The papers selected each number by labels. A claim is therefore checked on what labels select, where the runs have it;
the evidence adds the result without labels. A difference that two printed digits could not show is a tie.
"""

from collections.abc import Callable

import numpy as np

from runs.config.configs import ClusterConfig
from runs.stages.clustering.results import Trials
from runs.tables.claims import entropy
from runs.tables.claims.claim import Claim, Found, Results, check_by_dataset, published_claims
from runs.tables.table import Cell, ClaimStatus, Finding, SeedResult, Table

SHOWN = 0.005
"""Differences of NMI and accuracy below this are ties."""
SLK = ("slk_mean_shift", "slk_byproduct", "slk_means")


def check(table: Table, read: Callable[[SeedResult], Trials | None]) -> list[Finding]:
    """Check every claim on the clusterings of a table, by data set.

    Args:
        read: reads the trials of a run; None where they are not whole.
    """
    return check_by_dataset(table, CLAIMS, _place, read)


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


def higher(claim: Claim, results: Results[Trials], margin: float = 0.0) -> Found:
    """Whether the first method exceeds the second by `margin`."""
    better, than = claim.methods
    pair = results.pair(claim.metric, better, than)
    if pair is not None:
        difference = pair[0] - pair[1]
        tied = abs(difference - margin) <= SHOWN
        status: ClaimStatus = "tie" if tied else "holds" if difference > margin else "fails"
        plain = [results.cells[claim.metric][method].value for method in claim.methods]
        without = f"without labels {plain[0]:.3f} and {plain[1]:.3f}"
        at_least = f", of which {margin} is claimed" if margin else ""
        yield status, f"{better} {pair[0]:.3f}, {than} {pair[1]:.3f}: {difference:+.3f}{at_least}; {without}"


def faster(claim: Claim, results: Results[Trials]) -> Found:
    """Whether the second method takes fewer seconds than the first."""
    pair = results.pair(claim.metric, *claim.methods)
    if pair is not None:
        times = f": {pair[0] / pair[1]:.1f} times" if pair[1] else ""
        evidence = f"{pair[0]:.3g} s and {pair[1]:.3g} s{times}"
        yield "holds" if pair[1] < pair[0] else "fails", evidence


def no_higher(claim: Claim, results: Results[Trials]) -> Found:
    """Whether SLK-MS reaches no higher an objective than LK."""
    pair = results.pair(claim.metric, *claim.methods)
    if pair is not None:
        yield "holds" if pair[1] <= pair[0] else "fails", f"LK {pair[0]:.6g}, SLK-MS {pair[1]:.6g}"


def few_updates(claim: Claim, results: Results[Trials], most: int) -> Found:
    """Whether the modes stop after `most` updates."""
    counts = [int(trials.iterations[trials.chosen]) for trials in results.of(*claim.methods)]
    if counts:
        evidence = f"{', '.join(map(str, counts))} updates of the modes"
        yield "holds" if max(counts) <= most else "fails", evidence


def modes_are_points(claim: Claim, results: Results[Trials]) -> Found:
    """Whether the modes are distinct points."""
    for trials in results.of(*claim.methods):
        if trials.mode_indices is not None:
            rows = trials.mode_indices
            apart = len(np.unique(rows)) == len(rows) and bool((rows >= 0).all())
            yield "holds" if apart else "fails", f"rows {', '.join(map(str, rows.tolist()))}"


def alike(claim: Claim, results: Results[Trials], within: float) -> Found:
    """Whether the values of all variants of SLK differ by at most `within`."""
    cells = results.cells.get(claim.metric, {})
    known = {method: cells[method].compared for method in SLK if method in cells}
    if len(known) > 1:
        spread = max(known.values()) - min(known.values())
        evidence = ", ".join(f"{method} {value:.3f}" for method, value in known.items())
        yield "holds" if spread <= within else "fails", f"NMI {evidence}"


OF_ENTROPY = (entropy.above, entropy.rises_with_order, entropy.faster_solver, entropy.few_steps)
CLAIMS = published_claims("clustering", (higher, faster, no_higher, few_updates, modes_are_points, alike, *OF_ENTROPY))
