"""Pairs of points known to share a cluster or not, drawn from the classes of a data set."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.constraints import constraints
from clustering.evaluation.known_labels import KnownLabels
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream


class KnownLinks(NamedTuple):
    """Known links.

    Attributes:
        must_link: (p, 2) row numbers of pairs in the same class.
        cannot_link: (q, 2) row numbers of pairs in different classes.
    """

    must_link: NDArray[np.int64]
    cannot_link: NDArray[np.int64]


def drawn_links(labels: NDArray[Any], count: int, seed: int) -> KnownLinks:
    """The true relations of `count` distinct random pairs.

    Up to a quarter of all pairs, a smaller count gives a subset of a larger one.

    Args:
        labels: (N,) classes.
        count: number of pairs, at most N (N - 1) / 2.
        seed: seed of the draw.

    Raises:
        InputError: there are fewer pairs than `count`.
    """
    points = len(labels)
    available = points * (points - 1) // 2
    if count > available:
        raise InputError(f"links={count}: {points:,} points have {available:,} pairs; set links to at most {available}")
    if available <= 4 * count or available <= 100_000:
        chosen = stream(seed, "known links").permutation(available)[:count]
    else:  # draws few of many pairs without listing all
        drawn = stream(seed, "known links").integers(available, size=4 * count)
        _, first = np.unique(drawn, return_index=True)
        chosen = drawn[np.sort(first)][:count]
    # Pair number i (i - 1) / 2 + j consists of i and j < i.
    larger = ((1 + np.sqrt(1 + 8 * chosen.astype(np.float64))) / 2).astype(np.int64)
    larger -= larger * (larger - 1) // 2 > chosen  # corrects rounding up
    larger += larger * (larger + 1) // 2 <= chosen
    pairs = np.stack([chosen - larger * (larger - 1) // 2, larger], axis=1)
    alike = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return KnownLinks(pairs[alike], pairs[~alike])


def with_implied_labels(known: KnownLabels, links: KnownLinks) -> KnownLabels:
    """Known labels and links, with labels propagated to all points linked with labelled ones, directly or indirectly.

    Raises:
        InputError: links contradict labels or each other, or the labels of all points follow.
    """
    joined, separated = links
    labels = constraints(len(known.labels), labels=known.labels, must_link=joined, cannot_link=separated).labels
    if (labels >= 0).all():
        raise InputError(
            f"links={len(joined) + len(separated)}: the labels of all {len(labels):,} points follow from these and the "
            f"{int(known.known.sum()):,} known ones, so there is none to cluster; set fewer links or labels"
        )
    return known._replace(labels=labels)
