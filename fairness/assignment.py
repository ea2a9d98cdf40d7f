"""The cheapest assignment of points to given centres that keeps the share of every group within bounds, exactly.

The linear programme of Bera et al. (NeurIPS 2019, section 3) over x_pk >= 0:

    min sum_pk cost_pk x_pk    s.t.  sum_k x_pk = 1,   lower_j T_k <= T_jk <= upper_j T_k,   T_jk = sum_{p in j} x_pk

has N K variables, but its constraints, other than the simplices of the points, know of a point only which combination g
of groups it is in. So the dual has few multipliers, from which follows one price for each combination and cluster, and
at the optimum a point goes where cost_pk + price_gk is least. All but a few points have one such cluster by a clear
margin. The optimal multipliers of a sample tell which: the solver (HiGHS) is given the columns x_pk that are near the
least of their row, and a box around these multipliers in which to find better ones. Columns that its prices ask for are
added until none is left that could lower the cost (column generation), and the box is moved until the optimum is inside
(Marsten, Hogan and Blankenship 1975). The result does not depend on sample and box; only the time does.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, csr_array, eye_array, kron, vstack

from clustering.foundation.errors import InputError
from fairness.groups import Groups

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_COARSEST = 500
"""Points that are solved for without a sample."""

_GROWTH = 4
"""A sample has so many times fewer points."""

_BLOCK = 1 << 21
"""Costs looked at together: 16 MiB."""

_TOLERANCE = 1e-6
"""Of costs, in units of the dearest column that the solver is given first: ten times the solver's own."""

_TIED = 1e-12
"""Of costs, relative: they are the same up to rounding."""

_MISSED = 1e-6
"""Points by which bounds are missed, at most."""

_FAR = 1e4
"""Half the width of the first box, in the same units."""


class FairAssignment(NamedTuple):
    """An optimum of the linear programme.

    Attributes:
        shares: (N, K) x, rows sum to one; at a vertex, so that few rows have more than one entry.
        value: sum_pk cost_pk x_pk, weighted.
        prices: (G, K) such that every x_pk > 0 has the least cost_pk + prices_gk of its row, up to rounding.
        bound: what no assignment within the bounds can cost less than, from the prices; `value` up to rounding.
        multipliers: (R,) of the dual, to begin from where the costs are other ones.
    """

    shares: csr_array
    value: float
    prices: Floats
    bound: float
    multipliers: Floats


class _Programme(NamedTuple):
    """The data of the programme.

    Attributes:
        cells: (N,) combination of groups of each point.
        weights: (N,) how many points each stands for.
        excess, limits: (R, G K) and (R,), the bounds on the totals T_gk: excess @ T <= limits.
    """

    cost: Floats
    cells: Ints
    weights: Floats
    excess: csr_array
    limits: Floats

    def prices(self, multipliers: Floats) -> Floats:
        """(G, K) of multipliers (R,)."""
        return np.asarray(multipliers @ self.excess).reshape(-1, self.cost.shape[1])

    def priced(self, prices: Floats) -> Iterator[tuple[slice, Floats]]:
        """cost_pk + price_gk of some rows at a time."""
        count = max(1, _BLOCK // self.cost.shape[1])
        for first in range(0, len(self.cost), count):
            block = slice(first, min(first + count, len(self.cost)))
            yield block, self.cost[block] + prices[self.cells[block]]


def bounds_about(target: Floats, delta: float) -> tuple[Floats, Floats]:
    """Least and largest share of every group, (J,) each, target (1 - delta) and target / (1 - delta), as in the public
    code of Bera et al.; exactly the target with delta 0."""
    return target * (1 - delta), np.minimum(target / (1 - delta), 1.0)


def fair_assignment(
    cost: Floats,
    groups: Groups,
    lower: Floats,
    upper: Floats,
    *,
    generator: np.random.Generator,
    capacity: Floats | None = None,
    near: FairAssignment | None = None,
) -> FairAssignment:
    """Solve the programme above.

    Takes passes over N K costs and, in the solver, a few columns for each point that is between clusters. A cluster may
    end without points.

    Args:
        cost: (N, K) finite.
        groups: J of the N points; a point is in several where there are several attributes.
        lower: (J,) least share of each group in a cluster, 0..1.
        upper: (J,) largest share, 0..1.
        generator: of the samples.
        capacity: (K,) most points of each cluster, inf for any; N or more in all.
        near: what was found for costs that were little different, with the same groups and bounds: quicker than to
            begin with a sample.

    Raises:
        InputError: bounds that no assignment can keep.
    """
    clusters, membership = cost.shape[1], groups.membership
    for j, share in enumerate(groups.sizes / len(cost)):  # as in the data in every cluster, or not at all
        if not lower[j] - 1e-9 <= share <= upper[j] + 1e-9:
            raise InputError(
                f"group {groups.labels()[j]!r} is {share:.4g} of the points: no assignment can keep its share of every "
                f"cluster within {lower[j]:.4g}..{upper[j]:.4g}; choose bounds that contain the share in the data"
            )
    slopes = np.concatenate([membership - upper, lower - membership], axis=1).T
    slopes = slopes[slopes.max(axis=1) > 0]  # the others say nothing
    excess = kron(csr_array(slopes), eye_array(clusters), format="csr")
    limits = np.zeros(excess.shape[0])
    if capacity is not None:
        if capacity.sum() < len(cost):
            raise InputError(f"the capacities of the clusters are {capacity.sum():g} in all for {len(cost)} points")
        narrow = np.flatnonzero(np.isfinite(capacity))
        sizes = kron(np.ones((1, len(membership))), eye_array(clusters), format="csr")[narrow]
        excess, limits = vstack([excess, sizes], format="csr"), np.concatenate([limits, capacity[narrow]])
    programme = _Programme(cost, groups.cells, np.ones(len(cost)), excess, limits)
    shares, multipliers = _solved(programme, generator, None if near is None else near.multipliers)
    prices = programme.prices(multipliers)
    bound = sum(float(priced.min(axis=1).sum()) for _, priced in programme.priced(prices)) - float(limits @ multipliers)
    return FairAssignment(shares, float(shares.multiply(cost).sum()), prices, bound, multipliers)


def _solved(
    programme: _Programme, generator: np.random.Generator, multipliers: Floats | None = None
) -> tuple[csr_array, Floats]:
    """x (N, K) and the multipliers (R,) of an optimum, looked for about these."""
    cost, cells, weights, excess, _ = programme
    points, clusters = cost.shape
    if excess.shape[0] == 0:
        every = np.arange(points)
        return csr_array((np.ones(points), (every, cost.argmin(axis=1))), shape=cost.shape), np.empty(0)
    # The error of prices from n points is about sqrt(K / n), and so is the share of points that it moves.
    spare, width = int(4 * np.sqrt(clusters * points)), 0.5
    if multipliers is None and points <= _COARSEST:
        multipliers, spare, width = np.zeros(excess.shape[0]), points * clusters, _FAR
    elif multipliers is None:
        some, heavier = _sample(cells, weights, generator)
        sample = programme._replace(cost=cost[some], cells=cells[some], weights=heavier)
        _, multipliers = _solved(sample, generator)
    while True:
        prices = programme.prices(multipliers)
        keys, scale = _near(programme, prices, spare)
        while True:
            rows, columns = np.divmod(keys, clusters)
            amounts, found, outside = _restricted(programme, rows, columns, multipliers, scale, width)
            prices = programme.prices(found)
            least = np.minimum.reduceat(cost[rows, columns] + prices[cells[rows], columns], _firsts(rows))
            wanted = _cheaper(programme, prices, least - _TOLERANCE * scale, spare)
            if not len(wanted):
                break
            keys = np.union1d(keys, wanted)
        multipliers, width = found, 2 * width
        if outside <= _MISSED:
            break
    used = amounts > 0
    entries = amounts[used] / weights[rows[used]], (rows[used], columns[used])
    return csr_array(entries, shape=cost.shape), multipliers


def _sample(cells: Ints, weights: Floats, generator: np.random.Generator) -> tuple[Ints, Floats]:
    """Some of the points of every combination, and the weights with which they stand for all of it."""
    order = generator.permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    sizes = np.bincount(cells)
    rank = np.arange(len(cells)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    some = order[rank % _GROWTH == 0]
    mass = np.bincount(cells, weights) / np.bincount(cells[some], weights[some])
    return some, weights[some] * mass[cells[some]]


def _firsts(rows: Ints) -> Ints:
    """Where each row begins among rows in order."""
    return np.flatnonzero(np.diff(rows, prepend=-1))


def _near(programme: _Programme, prices: Floats, spare: int) -> tuple[Ints, float]:
    """Keys p K + k of the best column of every row, of some that are as good, and of the `spare` next best ones, and by
    how much these are dearer than the best of their row at most."""
    clusters = programme.cost.shape[1]
    best: list[Ints] = []
    as_good, keys, gaps = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
    for block, priced in programme.priced(prices):
        rows, lowest = np.arange(len(priced)), priced.argmin(axis=1)
        tied = _TIED * np.abs(priced).max()
        priced -= priced[rows, lowest][:, None]
        first = block.start * clusters
        best.append(first + rows * clusters + lowest)
        priced[rows, lowest] = np.inf
        gap = priced.reshape(-1)
        if len(as_good) < spare:
            as_good = np.concatenate([as_good, first + np.flatnonzero(gap <= tied)])
        near = np.flatnonzero((gap > tied) & (gap < (gaps.max() if len(gaps) == spare else np.inf)))
        kept, gaps = _least(np.concatenate([gaps, gap[near]]), spare)
        keys = np.concatenate([keys, first + near])[kept]
    scale = float(gaps.max(initial=0.0)) or float(np.abs(programme.cost).max()) or 1.0
    return np.unique(np.concatenate([*best, as_good[:spare], keys])), scale


def _cheaper(programme: _Programme, prices: Floats, least: Floats, most: int) -> Ints:
    """Keys p K + k of the best column of every row in which that costs less than `least` (N,); if these are more than
    `most`, those that cost least in comparison: with them the others may no longer do."""
    keys, excess = np.empty(0, dtype=np.int64), np.empty(0)
    for block, priced in programme.priced(prices):
        lowest = priced.min(axis=1) - least[block]
        rows = np.flatnonzero(lowest < 0)
        kept, excess = _least(np.concatenate([excess, lowest[rows]]), most)
        keys = np.concatenate([keys, (rows + block.start) * priced.shape[1] + priced[rows].argmin(axis=1)])[kept]
    return keys


def _least(values: Floats, count: int) -> tuple[Ints | slice, Floats]:
    """Where the `count` least values are, and these."""
    if len(values) <= count:
        return slice(None), values
    kept = np.argpartition(values, count - 1)[:count]
    return kept, values[kept]


def _restricted(
    programme: _Programme, rows: Ints, columns: Ints, centre: Floats, scale: float, width: float
) -> tuple[Floats, Floats, float]:
    """The programme with these columns x_pk alone, its multipliers within width * scale of the centre (R,).

    In the primal, each bound v <= 0 has the cost max over its multiplier l of l v instead. The variables are x of the
    points that have several columns, the totals T_gk, and the two parts of every v.

    Returns:
        x of each column times the weight of its point, multipliers (R,), and by how many points bounds are missed, or
        kept where their multipliers say that they are not, for the walls of the box.
    """
    cost, cells, weights, excess, limits = programme
    clusters, (bounds, totals) = cost.shape[1], excess.shape
    into = cells[rows] * clusters + columns
    unit = float(weights.mean())  # of amounts: the solver's tolerances are absolute
    amounts, limits = weights[rows] / unit, limits / unit
    counts = np.diff(_firsts(rows), append=len(rows))
    free = np.repeat(counts > 1, counts)
    fixed = np.bincount(into[~free], amounts[~free], totals)
    points, place = np.unique(rows[free], return_inverse=True)
    count = len(place)

    low, high = np.maximum(centre / scale - width, 0), centre / scale + width
    dearer = cost[rows, columns][free] / scale
    if count:
        dearer -= np.minimum.reduceat(dearer, _firsts(place))[place]
    each = np.arange(count)
    simplices = coo_array((np.ones(count), (place, each)), shape=(len(points), count))
    sums = coo_array((np.ones(count), (into[free], each)), shape=(totals, count))
    one = eye_array(bounds)
    paid = np.concatenate([dearer, np.zeros(totals), high, -low])
    constraints = block_array(
        [[simplices, None, None, None], [sums, -eye_array(totals), None, None], [None, excess, -one, one]],
        format="csc",
    )
    required = np.concatenate([weights[points] / unit, -fixed, limits])
    for method in ("highs-ds", "highs-ipm"):  # where the first is lost in rounding, the second need not be
        found = linprog(paid, A_eq=constraints, b_eq=required, method=method)
        if found.x is not None:
            break
    else:
        raise RuntimeError(f"HiGHS did not solve the fair assignment: {found.message}")
    amounts[free] = np.maximum(found.x[:count], 0)
    over, under = found.x[-2 * bounds : -bounds], found.x[-bounds:]
    multipliers = np.clip(-found.eqlin.marginals[len(found.eqlin.marginals) - bounds :], low, high)
    return amounts * unit, multipliers * scale, float(over.sum() + under[low > 0].sum())
