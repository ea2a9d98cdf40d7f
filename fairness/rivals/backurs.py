"""Fairlets in near-linear time by a random tree (Backurs, Indyk, Onak, Schieber, Vakilian and Wagner, ICML 2019)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.streams import stream
from fairness.groups import ranks
from fairness.rivals.base import Data, Floats, Ints
from fairness.rivals.fairlets import Fairlets, wanted_balance

_DEPTH = 40
"""Number of halvings of the box after which points count as coincident."""


@dataclass(eq=False, repr=False)
class Backurs(Fairlets):
    """Fairlets are formed within the cells of a randomly shifted quadtree, and the fairlets are clustered.

    The method is for two groups. A fairlet has at least p points of one group for every q of the other, hence a cluster
    of fairlets has a balance of at least p / q. From the top down, each cell of the tree removes a few points from its
    children, so that every child stays balanced, and forms fairlets from them. All cells of a level are processed
    together: each of at most 40 levels needs a few sorts of the remaining points and a few arrays of length N. K-median
    or K-means is then applied to the points at the positions of their fairlet centres. The public code counts each
    centre once, whatever the size of its fairlet.

    Parameters
    ----------
    balance : p, q with p <= q, at most the balance of the data. None uses the largest such p / q with p + q <= 10;
        large fairlets, such as those of 49, 100, cost more than the small gain in balance is worth.

    For the other parameters, and the fitted attributes, see `fairness.rivals.fairlets.Fairlets`.
    """

    def _fairlets(self, data: Data) -> Ints:
        self.balance_wanted_ = wanted_balance(self.balance, data.groups, "Backurs", most=10)
        generator = stream(data.seed, "tree of fairlets")
        return tree_fairlets(data.values, data.groups.cells, *self.balance_wanted_, generator)


def tree_fairlets(values: Floats, colours: Ints, p: int, q: int, generator: np.random.Generator) -> Ints:
    """(N,) fairlets 0..F-1 of points (N, D) of two colours (N,), in which the ratio of the colours is p / q or more.

    Any partition of the cells into parts gives fairlets of that balance; it decides how far apart their points are.
    """
    low = values.min(axis=0)
    spread = np.maximum(values.max(axis=0) - low, np.finfo(np.float64).tiny)
    places = (values - low + generator.random(values.shape[1]) * spread) / (2 * spread)  # in 0..1
    keys = generator.integers(1, 2**63, size=values.shape[1], dtype=np.uint64) * 2 + 1
    fairlets, count = np.empty(len(values), dtype=np.int64), 0
    left, cells = np.arange(len(values)), np.zeros(len(values), dtype=np.int64)
    for _ in range(_DEPTH):
        places = places * 2
        halves = places >= 1
        places -= halves
        part = (halves.astype(np.uint64) * keys).sum(axis=1, dtype=np.uint64)  # a number for each corner of a cell
        order = np.lexsort((colours[left], part, cells))
        left, cells, part, places = left[order], cells[order], part[order], places[order]
        parts = np.cumsum(_differs(cells) | _differs(part)) - 1
        in_fairlet = _taken(cells, parts, colours[left], p, q)
        fairlets[left[in_fairlet]], more = _decomposed(cells[in_fairlet], colours[left[in_fairlet]], p, q)
        fairlets[left[in_fairlet]] += count
        count += more
        left, cells, places = left[~in_fairlet], parts[~in_fairlet], places[~in_fairlet]
        if not len(left):
            return fairlets
    fairlets[left], _ = _decomposed(cells, colours[left], p, q)
    fairlets[left] += count
    return fairlets


def _differs(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value is not the one before it."""
    begins = np.ones(len(values), dtype=np.bool_)
    begins[1:] = values[1:] != values[:-1]
    return begins


def _before(values: Ints, segments: Ints) -> Ints:
    """Sums of the values before each in its segment; segments in order."""
    sums = np.cumsum(values) - values
    first = np.flatnonzero(_differs(segments))
    return sums - np.repeat(sums[first], np.diff(np.append(first, len(segments))))


def _taken(cells: Ints, parts: Ints, colours: Ints, p: int, q: int) -> NDArray[np.bool_]:
    """Which points (n,), in the order of parts and colours, the cells take from their parts, so that what they take and
    what they leave in every part is balanced."""
    number = int(parts[-1]) + 1
    counts = np.bincount(2 * parts + colours, minlength=2 * number).reshape(-1, 2)
    cell = np.unique(cells[_differs(parts)], return_inverse=True)[1]  # of each part
    all_cells = np.arange(number)

    # What must go: of the colour that a part has more of, what the other cannot balance.
    major = counts.argmax(axis=1)
    take = np.zeros_like(counts)
    take[all_cells, major] = np.maximum(counts[all_cells, major] - counts[all_cells, 1 - major] * q // p, 0)

    # What may go besides: of the colour that is rare among what was taken, as much as lacks.
    sums = _by_cell(take, cell)
    common = sums.argmax(axis=1)
    lacking = np.maximum(-(-sums.max(axis=1) * p // q) - sums.min(axis=1), 0)
    much, few = common[cell], 1 - common[cell]
    rest = counts - take
    surplus_of_cell = np.maximum(rest[all_cells, few] - -(-rest[all_cells, much] * p // q), 0)
    give = np.clip(lacking[cell] - _before(surplus_of_cell, cell), 0, surplus_of_cell)
    take[all_cells, few] += give

    # If that is too little, parts are taken from down to what is exactly p to q, until it is enough.
    rest, sums = counts - take, _by_cell(take, cell)
    exact = rest[all_cells, much] // q
    more, rare = rest[all_cells, much] - q * exact, rest[all_cells, few] - p * exact
    have_more = sums[cell, much] + _before(more, cell)
    have_rare = sums[cell, few] + _before(rare, cell)
    enough = (have_rare * q >= have_more * p).astype(np.int64)
    still = enough + _before(enough, cell) == 0
    take[all_cells, much] += np.where(still, more, 0)
    take[all_cells, few] += np.where(still, rare, 0)

    segments = 2 * parts + colours
    chosen: NDArray[np.bool_] = ranks(segments) < take.reshape(-1)[segments]
    return chosen


def _by_cell(values: Ints, cell: Ints) -> Ints:
    """(C, 2) sums over the parts (P, 2) of each cell."""
    return np.stack([np.bincount(cell, values[:, j]) for j in range(2)], axis=1).round().astype(np.int64)


def _decomposed(cells: Ints, colours: Ints, p: int, q: int) -> tuple[Ints, int]:
    """Fairlets of the balanced points of each cell, whoever is next: (n,) 0..F-1, and F.

    Of r points of one colour and b <= r of the other: as many times q and p as leave r >= b; the rest, if it is few;
    else one fairlet with p of the other and so many that equally many are left, which are paired.
    """
    if not len(cells):
        return np.empty(0, dtype=np.int64), 0
    cell = np.unique(cells, return_inverse=True)[1]
    counts = np.bincount(2 * cell + colours, minlength=2 * (int(cell.max()) + 1)).reshape(-1, 2)
    major = counts.argmax(axis=1)
    r, b = counts.max(axis=1), counts.min(axis=1)
    fairlet_count = np.minimum(r // q, b // p)
    if q > p:
        fairlet_count = np.minimum(fairlet_count, (r - b) // (q - p))
    r, b = r - fairlet_count * q, b - fairlet_count * p
    few = r + b <= p + q
    uneven = np.where(few | (r == b), 0, r - b + p)  # of the major colour in the one fairlet; p of the other

    rank = ranks(2 * cell + colours)
    is_major = colours == major[cell]
    size = np.where(is_major, q, p)
    after = rank - fairlet_count[cell] * size
    first = np.where(is_major, uneven[cell], np.where(uneven[cell] > 0, p, 0))
    late = np.where(few[cell] | (after < first), 0, after - first + (uneven[cell] > 0))
    local = np.where(after < 0, rank // size, fairlet_count[cell] + late)
    _, fairlets = np.unique(cell * (len(cells) + 1) + local, return_inverse=True)
    return fairlets.astype(np.int64), int(fairlets.max()) + 1
