"""Evaluation protocol of a method on a data set: which trials are run, and which one counts (thesis section 2.5).

The papers report the best of about forty trials, each with its own start and setting, selected by the labels of a tenth
of the points. Without labels a user has the trial with the lowest objective, or any trial. There are therefore three
results: selected by labels, selected by the objective, and the spread of all starts at one setting.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.streams import stream, stream_key


class Trial(NamedTuple):
    """One fit.

    Attributes:
        setting: index of the setting; 0 is the given one.
        start: index of its seed.
        given: whether it counts among the starts at the given setting.
        tried: whether it counts among the trials selected from by labels.
    """

    setting: int
    start: int
    given: bool
    tried: bool


class Selection(NamedTuple):
    """How labels select among trials.

    Attributes:
        trials: number of trials, the same for every method.
        share: share of the points whose labels are used for the selection.
        settings: parameters that differ from the given ones, by name; {}: the parameters as given.
    """

    trials: int
    share: float
    settings: tuple[Mapping[str, Any], ...] = ({},)


def schedule(starts: int, selection: Selection | None, *, seeded: bool = True) -> list[Trial]:
    """All trials, grouped by setting.

    Each trial of a selection has its own start, and each setting has equally many trials. The given setting comes
    first, so that its starts are shared as far as possible.

    Args:
        starts: number of starts at the given setting.
        selection: None if no labels are used for selection. A setting {} is the given one.
        seeded: whether the method has random starts; otherwise each setting is run once.
    """
    seeded_trials = {(0, start) for start in range(starts if seeded else 1)}
    tried = set()
    if selection is not None:
        numbers = [i + 1 if setting else 0 for i, setting in enumerate(selection.settings)]
        numbers.sort(key=bool)
        for i in range(selection.trials):
            tried.add((numbers[i * len(numbers) // selection.trials], i if seeded else 0))
    return [
        Trial(*trial, given=trial in seeded_trials, tried=trial in tried) for trial in sorted(seeded_trials | tried)
    ]


def random_state(seed: int, start: int) -> int:
    """The seed of a start, 0..2^31 - 1, the same for all methods and data sets."""
    return stream_key(seed, "start", start) % 2**31


def chooses(points: int, share: float, seed: int) -> NDArray[np.bool_]:
    """(N,) mask of the points whose labels are used for the selection, drawn without replacement: at least one, and
    never all."""
    count = min(max(1, round(share * points)), points - 1)
    chosen = np.zeros(points, dtype=bool)
    chosen[stream(seed, "selection").permutation(points)[:count]] = True
    return chosen


def scores(predicted: NDArray[Any], true: NDArray[Any]) -> dict[str, float]:
    """Agreement of labels with classes: NMI with geometric and arithmetic mean, accuracy under the best one-to-one
    matching, adjusted Rand index."""
    from clustering.metrics import accuracy, ari, nmi

    return {
        "nmi": nmi(true, predicted),
        "nmi_arithmetic": nmi(true, predicted, average="arithmetic"),
        "acc_hungarian": accuracy(true, predicted),
        "ari": ari(true, predicted),
    }


SCORES = ("nmi", "nmi_arithmetic", "acc_hungarian", "ari")

ACCURACY = "accuracy"
"""Share of points whose cluster number equals their class; a score if known labels name the clusters."""


def lowest(
    criterion: Sequence[float] | NDArray[Any],
    objective: Sequence[float] | NDArray[Any],
    clusters: Sequence[int] | NDArray[Any],
    points: int,
) -> int:
    """The best trial without labels.

    Trials with the most clusters come first; among these, trials with nearly the lowest objective; and among these, the
    lowest criterion. The first of equal trials is chosen, and NaN counts last.

    Args:
        criterion: (T,) criterion by which the method ranks trials; the objective if it has no other.
        objective: (T,) objective of the method, a sum over points.
        clusters: (T,) number of non-empty clusters.
        points: N.
    """
    from clustering.starts import NEARLY  # here, since it imports torch

    full = np.asarray(clusters) == np.max(clusters)
    energies = np.nan_to_num(objective, nan=np.inf)
    near = full & (energies <= energies[full].min() + NEARLY * points)
    return int(np.argmin(np.where(near, np.nan_to_num(criterion, nan=np.inf), np.inf)))
