"""What Zhang and Boykov claim of entropy clustering against its rivals, checked on the results of a table.

Methods get the same starts, and are compared start by start; the paper's own seeds differ by up to seven points.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Protocol

import numpy as np

from runs.clustering_results import Trials
from runs.tables.claims import Status

RIVALS = ("migd", "sela", "miadm", "miadm_batch", "imsat", "iic", "kmeans")
SURE = 2.0
"""Standard errors of the mean difference beyond which it is not chance."""


class HasTrials(Protocol):
    """The results of one data set."""

    def trials(self, method: str) -> list[Trials]:
        """Of every seed."""


def above(rival: str) -> Callable[[Any], Iterator[tuple[Status, str]]]:
    """Whether entropy clustering has the higher accuracy, by the paired differences of starts and seeds."""

    def look(results: HasTrials) -> Iterator[tuple[Status, str]]:
        ours, theirs = (_accuracies(results.trials(method)) for method in ("entropy", rival))
        pairs = np.array([ours[key] - theirs[key] for key in ours.keys() & theirs.keys()])
        if len(pairs) < 2:
            return
        mean, error = float(pairs.mean()), float(pairs.std(ddof=1) / len(pairs) ** 0.5)
        status: Status = "tie" if abs(mean) <= SURE * error else "holds" if mean > 0 else "fails"
        means = [np.mean(list(found.values())) for found in (ours, theirs)]
        same = f"of the same {len(pairs)} starts {mean:+.3f} ± {SURE * error:.3f}"
        yield status, f"entropy {means[0]:.3f}, {rival} {means[1]:.3f}; {same}"

    return look


def _accuracies(trials: list[Trials]) -> dict[int, float]:
    """Accuracy by random_state, of the starts at the given setting."""
    found = chain.from_iterable(
        zip(one.seeds[one.given], one.scores["acc_hungarian"][one.given], strict=True) for one in trials if one.scores
    )
    return {int(seed): float(accuracy) for seed, accuracy in found}
