"""How a method is judged on a data set: which trials are made, and which of them counts (thesis section 2.5).

The papers report the best of some forty trials, each with a start and a setting of its own, by the labels of a tenth of
the points. Without labels a user has the trial of the lowest objective, or any. So there are three answers: selected by
labels, by the objective, and the spread of all starts at one setting.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.streams import stream, stream_key

NEARLY = 0.04
"""Of E a point. By more than this a start of SLK is worse that joins two clusters and halves another where clusters lie
apart (blobs of uneven sizes: 0.1 to 0.2), by less where they run into each other (USPS, MNIST)."""


class Trial(NamedTuple):
    """One fit.

    Attributes:
        setting: which one; 0 is the one that was given.
        start: number of its seed.
        given: whether it counts among the starts at the given setting.
        tried: whether it counts among those that labels choose from.
    """

    setting: int
    start: int
    given: bool
    tried: bool


class Selection(NamedTuple):
    """What labels choose from.

    Attributes:
        trials: how many; as many for every method.
        share: of the points, whose labels choose.
        settings: parameters by name; {} is the setting that was given.
    """

    trials: int
    share: float
    settings: tuple[Mapping[str, Any], ...] = ({},)


def schedule(starts: int, selection: Selection | None, *, seeded: bool = True) -> list[Trial]:
    """Every trial once, those of one setting together. Each trial of a selection has a start of its own, and each
    setting as many trials; the given setting comes first, so that its starts are shared as far as possible.

    Args:
        starts: at the given setting.
        selection: None where no labels choose. A setting {} of it is the given one.
        seeded: whether the method has random starts; else each setting is tried once.
    """
    given = {(0, start) for start in range(starts if seeded else 1)}
    tried = set()
    if selection is not None:
        numbers = [i + 1 if setting else 0 for i, setting in enumerate(selection.settings)]
        numbers.sort(key=bool)
        for i in range(selection.trials):
            tried.add((numbers[i * len(numbers) // selection.trials], i if seeded else 0))
    return [Trial(*trial, given=trial in given, tried=trial in tried) for trial in sorted(given | tried)]


def random_state(seed: int, start: int) -> int:
    """The seed of a start, 0..2^31 - 1: the same for every method and data set."""
    return stream_key(seed, "start", start) % 2**31


def chooses(points: int, share: float, seed: int) -> NDArray[np.bool_]:
    """(N,) which points' labels choose, drawn without replacement: at least one, and never all."""
    count = min(max(1, round(share * points)), points - 1)
    chosen = np.zeros(points, dtype=bool)
    chosen[stream(seed, "selection").permutation(points)[:count]] = True
    return chosen


def scores(found: NDArray[Any], true: NDArray[Any]) -> dict[str, float]:
    """Agreement of labels with classes: NMI by the geometric and the arithmetic mean, accuracy under the best
    one-to-one match of clusters and classes, adjusted Rand index."""
    from clustering.metrics import accuracy, ari, nmi

    return {
        "nmi": nmi(true, found),
        "nmi_arithmetic": nmi(true, found, average="arithmetic"),
        "acc_hungarian": accuracy(true, found),
        "ari": ari(true, found),
    }


SCORES = ("nmi", "nmi_arithmetic", "acc_hungarian", "ari")

ACCURACY = "accuracy"
"""Share of points whose cluster has the number of their class: a score where known labels name the clusters."""


def lowest(
    criterion: Sequence[float] | NDArray[Any],
    objective: Sequence[float] | NDArray[Any],
    clusters: Sequence[int] | NDArray[Any],
    points: int,
) -> int:
    """The trial of most clusters, of these one whose objective is nearly the lowest, of these the one of the lowest
    criterion, of equals the first. NaN counts last.

    Args:
        criterion: (T,) by which the method chooses among trials; its objective where it has no other.
        objective: (T,) what it lowers, a sum over points.
        clusters: (T,) with points.
        points: N.
    """
    full = np.asarray(clusters) == np.max(clusters)
    energies = np.nan_to_num(objective, nan=np.inf)
    near = full & (energies <= energies[full].min() + NEARLY * points)
    return int(np.argmin(np.where(near, np.nan_to_num(criterion, nan=np.inf), np.inf)))
