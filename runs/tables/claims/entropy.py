"""What Zhang and Boykov claim of entropy clustering against its rivals, and of its solvers of pseudo-labels, checked on
the results of a table.

Methods get the same starts, and are compared start by start; the paper's own seeds differ by up to seven points.
"""

import itertools
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Protocol

import numpy as np

from clustering.evaluation.protocol import ACCURACY
from runs.stages.clustering.results import Trials
from runs.tables.claims.few_shot import Status

RIVALS = ("migd", "sela", "miadm", "miadm_batch", "imsat", "iic", "kmeans")
WITH_LABELS = ("labelled", "imsat", "iic", "sela", "miadm_batch")
ORDERS = (0.1, 0.5, 1.0, 5.0, 1000.0)
SURE = 2.0
"""Standard errors of the mean difference beyond which it is not chance."""

Accuracies = dict[int, float]
"""By random state."""


EM, NEWTON = "pseudo_labels_em", "pseudo_labels_newton"
STEPS = 2
"""Of EM, in its Table I."""


class HasTrials(Protocol):
    """The results of one data set."""

    def trials(self, method: str) -> list[Trials]:
        """Of every seed."""


def of_order(order: float) -> str:
    """What the information of Renyi's entropy of an order is called among methods."""
    return "migd" if order == 1 else f"migd, order {order:g}"


def above(rival: str, *, labels: bool = False) -> Callable[[Any], Iterator[tuple[Status, str]]]:
    """Whether entropy clustering has the higher accuracy, by the paired differences of starts and seeds.

    Args:
        labels: whether it is about clusterings with known labels, and the points without; else about those without any.
    """

    def look(results: HasTrials) -> Iterator[tuple[Status, str]]:
        ours, theirs = (_accuracies(results.trials(method), labels=labels) for method in ("entropy", rival))
        found = _paired(ours, theirs)
        if found is not None:
            status, same = found
            yield status, f"entropy {_mean(ours):.3f}, {rival} {_mean(theirs):.3f}; {same}"

    return look


def rises_with_order(results: HasTrials) -> Iterator[tuple[Status, str]]:
    """Whether the accuracy rises with the order of Renyi's entropy: from each to the next, and from the least to the
    greatest by more than chance."""
    found = {order: _accuracies(results.trials(of_order(order)), labels=False) for order in ORDERS}
    known = {order: values for order, values in found.items() if values}
    if len(known) < 2:
        return
    ends = _paired(known[max(known)], known[min(known)])
    if ends is not None:
        status, same = ends
        means = [_mean(values) for values in known.values()]
        rises = all(before <= after for before, after in itertools.pairwise(means))
        listed = ", ".join(f"{order:g}: {mean:.3f}" for order, mean in zip(known, means, strict=True))
        yield "fails" if status == "holds" and not rises else status, f"{listed}; greatest over least {same}"


def faster(results: HasTrials) -> Iterator[tuple[Status, str]]:
    """Whether EM is faster than Newton's method: by the ratio, for seconds are of a machine."""
    em, newton = ([float(one.seconds[:, 2].mean()) for one in results.trials(name)] for name in (EM, NEWTON))
    if em and newton:
        ratio = float(np.mean(newton) / np.mean(em))
        yield "holds" if ratio > 1 else "fails", f"Newton's method takes {ratio:,.4g} times as long"


def few_steps(results: HasTrials) -> Iterator[tuple[Status, str]]:
    """Whether EM takes as few steps as are printed."""
    counts = sorted({int(count) for one in results.trials(EM) for count in one.iterations})
    if counts:
        yield "holds" if counts[-1] <= STEPS else "fails", f"steps: {' or '.join(map(str, counts))}"


def _paired(ours: Accuracies, theirs: Accuracies) -> tuple[Status, str] | None:
    """Whether the first are higher where both are; None of fewer than two."""
    pairs = np.array([ours[key] - theirs[key] for key in ours.keys() & theirs.keys()])
    if len(pairs) < 2:
        return None
    mean, error = float(pairs.mean()), float(pairs.std(ddof=1) / len(pairs) ** 0.5)
    status: Status = "tie" if abs(mean) <= SURE * error else "holds" if mean > 0 else "fails"
    return status, f"of the same {len(pairs)} starts {mean:+.3f} ± {SURE * error:.3f}"


def _mean(values: Accuracies) -> float:
    return float(np.mean(list(values.values())))


def _accuracies(trials: list[Trials], *, labels: bool) -> Accuracies:
    """Of the starts at the given setting: as known labels name the clusters, or, without any, under the best match."""
    name = ACCURACY if labels else "acc_hungarian"
    found = chain.from_iterable(
        zip(one.seeds[one.given], one.scores[name][one.given], strict=True)
        for one in trials
        if one.scores and (ACCURACY in one.scores) == labels
    )
    return {int(seed): float(accuracy) for seed, accuracy in found}
