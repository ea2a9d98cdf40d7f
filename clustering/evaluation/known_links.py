"""Pairs of points of which it is known whether they are of one cluster, drawn from a data set's own classes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.known_labels import KnownLabels
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream


class KnownLinks(NamedTuple):
    """What is known.

    Attributes:
        must_link: (p, 2) row numbers of pairs of one class.
        cannot_link: (q, 2) of pairs of two.
    """

    must_link: NDArray[np.int64]
    cannot_link: NDArray[np.int64]


def drawn_links(labels: NDArray[Any], count: int, seed: int) -> KnownLinks:
    """The true relation of so many random pairs, each pair once. Up to a quarter of all, those of fewer are
    among those of more.

    Args:
        labels: (N,) classes.
        count: pairs, at most N (N - 1) / 2.
        seed: of the draw.

    Raises:
        InputError: fewer pairs than that.
    """
    points = len(labels)
    every = points * (points - 1) // 2
    if count > every:
        raise InputError(f"links={count}: {points:,} points have {every:,} pairs; ask for fewer")
    if every <= 4 * count or every <= 100_000:
        chosen = stream(seed, "known links").permutation(every)[:count]
    else:  # a draw of few from many, without a list of all
        drawn = stream(seed, "known links").integers(every, size=4 * count)
        _, first = np.unique(drawn, return_index=True)
        chosen = drawn[np.sort(first)][:count]
    # Pair number i (i - 1) / 2 + j is that of i and j < i.
    larger = ((1 + np.sqrt(1 + 8 * chosen.astype(np.float64))) / 2).astype(np.int64)
    larger -= larger * (larger - 1) // 2 > chosen  # where rounding went up
    larger += larger * (larger + 1) // 2 <= chosen
    pairs = np.stack([chosen - larger * (larger - 1) // 2, larger], axis=1)
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return KnownLinks(pairs[same], pairs[~same])


def with_all_that_follows(known: KnownLabels, links: KnownLinks) -> KnownLabels:
    """What is known, with the labels of points that are linked with labelled ones, directly or through others.

    Raises:
        InputError: links that contradict labels or each other, or no point of which the label does not follow.
    """
    from clustering.deep.xsdc.constraints import constraints

    joined, parted = links
    labels = constraints(len(known.labels), labels=known.labels, must_link=joined, cannot_link=parted).labels
    if (labels >= 0).all():
        raise InputError(
            f"links={len(joined) + len(parted)}: the labels of all {len(labels):,} points follow from these and the "
            f"{int(known.known.sum()):,} known ones, so that none is left to be clustered; ask for fewer"
        )
    return known._replace(labels=labels)
