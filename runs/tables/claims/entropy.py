"""Tests of the claims of Zhang and Boykov about entropy clustering and about its solvers of pseudo-labels.

Methods have the same starts and are compared start by start; in the paper seeds differ by up to seven points.
"""

import itertools
from itertools import chain

import numpy as np

from clustering.evaluation.protocol import ACCURACY
from runs.stages.clustering.results import Trials
from runs.tables.claims.claim import Claim, Found, Results
from runs.tables.table import ClaimStatus

ORDERS = (0.1, 0.5, 1.0, 5.0, 1000.0)
SURE = 2.0
"""Standard errors of the mean difference beyond which it is not due to chance."""

Accuracies = dict[int, float]
"""By random state."""


def of_order(order: float) -> str:
    """Name of the method that maximises the information of Renyi's entropy of an order."""
    return "migd" if order == 1 else f"migd, order {order:g}"


def above(claim: Claim, results: Results[Trials], labels: bool = False) -> Found:
    """Whether the first method has the higher accuracy, by the paired differences of starts and seeds.

    Args:
        labels: compare clusterings with known labels, on the points without; else clusterings without any labels.
    """
    names = claim.methods
    ours, theirs = (_accuracies(results.of(name), labels=labels) for name in names)
    compared = _paired(ours, theirs)
    if compared is not None:
        status, difference = compared
        yield status, f"{names[0]} {_mean(ours):.3f}, {names[1]} {_mean(theirs):.3f}; {difference}"


def rises_with_order(claim: Claim, results: Results[Trials]) -> Found:
    """Whether the accuracy rises with the order of Renyi's entropy: from each order to the next, and from the least to
    the greatest by more than chance."""
    by_order = {order: _accuracies(results.of(of_order(order)), labels=False) for order in ORDERS}
    known = {order: values for order, values in by_order.items() if values}
    if len(known) < 2:
        return
    ends = _paired(known[max(known)], known[min(known)])
    if ends is not None:
        status, difference = ends
        means = [_mean(values) for values in known.values()]
        rises = all(before <= after for before, after in itertools.pairwise(means))
        listed = ", ".join(f"{order:g}: {mean:.3f}" for order, mean in zip(known, means, strict=True))
        yield "fails" if status == "holds" and not rises else status, f"{listed}; greatest over least {difference}"


def faster_solver(claim: Claim, results: Results[Trials]) -> Found:
    """Whether EM is faster than Newton's method, by the ratio of their seconds, which depend on the machine."""
    em, newton = ([float(one.seconds[:, 2].mean()) for one in results.of(name)] for name in claim.methods)
    if em and newton:
        ratio = float(np.mean(newton) / np.mean(em))
        yield "holds" if ratio > 1 else "fails", f"Newton's method takes {ratio:,.4g} times as long"


def few_steps(claim: Claim, results: Results[Trials], most: int) -> Found:
    """Whether a solver takes no more steps than are printed."""
    counts = sorted({int(count) for one in results.of(*claim.methods) for count in one.iterations})
    if counts:
        yield "holds" if counts[-1] <= most else "fails", f"steps: {' or '.join(map(str, counts))}"


def _paired(ours: Accuracies, theirs: Accuracies) -> tuple[ClaimStatus, str] | None:
    """Whether the first are higher, over the starts that both have; None for fewer than two starts."""
    pairs = np.array([ours[key] - theirs[key] for key in ours.keys() & theirs.keys()])
    if len(pairs) < 2:
        return None
    mean, error = float(pairs.mean()), float(pairs.std(ddof=1) / len(pairs) ** 0.5)
    status: ClaimStatus = "tie" if abs(mean) <= SURE * error else "holds" if mean > 0 else "fails"
    return status, f"of the same {len(pairs)} starts {mean:+.3f} ± {SURE * error:.3f}"


def _mean(values: Accuracies) -> float:
    return float(np.mean(list(values.values())))


def _accuracies(trials: list[Trials], *, labels: bool) -> Accuracies:
    """Accuracies of the starts at the given setting: with labels, of clusters that the labels name; without, under the
    best match of clusters and classes."""
    name = ACCURACY if labels else "acc_hungarian"
    pairs = chain.from_iterable(
        zip(one.seeds[one.given], one.scores[name][one.given], strict=True)
        for one in trials
        if one.scores and (ACCURACY in one.scores) == labels
    )
    return {int(seed): float(accuracy) for seed, accuracy in pairs}
