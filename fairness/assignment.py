"""The cheapest assignment of points to fixed centres that keeps the share of each group within bounds, solved exactly.

The linear programme of Bera et al. (NeurIPS 2019, section 3) over x_pk >= 0,

    min sum_pk cost_pk x_pk    s.t.  sum_k x_pk = 1,   lower_j T_k <= T_jk <= upper_j T_k,   T_jk = sum_{p in j} x_pk

has N K variables. Apart from the simplices of the points, its constraints depend on a point only through its
combination g of groups. The dual therefore has few multipliers, and these give one price per combination and cluster;
at the optimum each point goes where cost_pk + price_gk is lowest, and for all but a few points that cluster is unique
by a clear margin.

The multipliers are found by column generation. The optimum of a sample gives a first guess. The solver (HiGHS) receives
the columns x_pk that are close to the lowest of their row, and a box around the guess in which the multipliers may
move. Columns that would lower the cost at the new prices are added until there are none, and the box is moved until the
optimum is inside (Marsten, Hogan and Blankenship 1975). Sample and box affect the time, but not the result.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, csr_array, eye_array, kron, vstack

from clustering.foundation.errors import InputError
from fairness.groups import Groups, stratified

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_COARSEST = 500
"""Number of points below which no sample is taken."""

_GROWTH = 4
"""Ratio of the number of points to the size of the sample."""

_BLOCK = 1 << 21
"""Number of costs processed at a time: 16 MiB."""

_TOLERANCE = 1e-6
"""Tolerance of costs, in units of the most expensive of the first columns: ten times the tolerance of the solver."""

_TIED = 1e-12
"""Relative difference below which two costs count as equal."""

_MISSED = 1e-6
"""Largest violation of a bound, in points."""

_FAR = 1e4
"""Half the width of the first box, in units of the most expensive of the first columns."""


class Assignment(NamedTuple):
    """An optimum of the linear programme.

    Attributes:
        shares: (N, K) x, rows sum to one; a vertex, so that few rows have more than one entry.
        value: weighted sum_pk cost_pk x_pk.
        prices: (G, K) such that every x_pk > 0 has the lowest cost_pk + prices_gk of its row, up to rounding.
        bound: lower bound from the prices on the cost of any feasible assignment; equals `value` up to rounding.
        multipliers: (R,) dual multipliers, with which a problem with other costs can start.
    """

    shares: csr_array
    value: float
    prices: Floats
    bound: float
    multipliers: Floats


class _Programme(NamedTuple):
    """Data of the linear programme.

    Attributes:
        cells: (N,) combination of groups of each point.
        weights: (N,) number of points that each point represents.
        excess, limits: (R, G K) and (R,), the bounds on the totals T_gk: excess @ T <= limits.
    """

    cost: Floats
    cells: Ints
    weights: Floats
    excess: csr_array
    limits: Floats

    def prices(self, multipliers: Floats) -> Floats:
        """(G, K) prices of multipliers (R,)."""
        return np.asarray(multipliers @ self.excess).reshape(-1, self.cost.shape[1])

    def priced(self, prices: Floats) -> Iterator[tuple[slice, Floats]]:
        """Blocks of rows of cost_pk + price_gk."""
        count = max(1, _BLOCK // self.cost.shape[1])
        for first in range(0, len(self.cost), count):
            block = slice(first, min(first + count, len(self.cost)))
            yield block, self.cost[block] + prices[self.cells[block]]


def bounds_about(target: Floats, delta: float) -> tuple[Floats, Floats]:
    """Lowest and highest share of each group, (J,) each: target (1 - delta) and target / (1 - delta).

    This is the definition in the public code of Bera et al.; with delta 0 both equal the target.
    """
    return target * (1 - delta), np.minimum(target / (1 - delta), 1.0)


def fair_assignment(
    cost: Floats,
    groups: Groups,
    lower: Floats,
    upper: Floats,
    *,
    generator: np.random.Generator,
    capacity: Floats | None = None,
    near: Assignment | None = None,
) -> Assignment:
    """Solve the programme above.

    The time is that of several passes over N K costs plus the solver's, which sees a few columns for each point between
    clusters. A cluster may end up empty.

    Args:
        cost: (N, K) finite.
        groups: J groups of the N points; with several attributes a point is in several groups.
        lower: (J,) lowest share of each group in a cluster, 0..1.
        upper: (J,) highest share of each group in a cluster, 0..1.
        generator: random generator of the samples.
        capacity: (K,) maximum number of points in each cluster, inf for no limit; the sum must be N or more.
        near: solution for similar costs with the same groups and bounds, a faster start than a sample.

    Raises:
        InputError: no assignment satisfies the bounds.
    """
    clusters, membership = cost.shape[1], groups.membership
    for j, share in enumerate(groups.sizes / len(cost)):  # feasible if and only if the shares in the data are
        if not lower[j] - 1e-9 <= share <= upper[j] + 1e-9:
            raise InputError(
                f"group {groups.labels()[j]!r} is {share:.4g} of the points: no assignment keeps its share of "
                f"every cluster within {lower[j]:.4g}..{upper[j]:.4g}; choose bounds that contain the share in "
                "the data"
            )
    slopes = np.concatenate([membership - upper, lower - membership], axis=1).T
    slopes = slopes[slopes.max(axis=1) > 0]  # the other rows always hold
    excess = kron(csr_array(slopes), eye_array(clusters), format="csr")
    limits = np.zeros(excess.shape[0])
    if capacity is not None:
        if capacity.sum() < len(cost):
            raise InputError(
                f"the capacities of the clusters sum to {capacity.sum():g}, which is less than the {len(cost)} points; "
                "raise one"
            )
        narrow = np.flatnonzero(np.isfinite(capacity))
        sizes = kron(np.ones((1, len(membership))), eye_array(clusters), format="csr")[narrow]
        excess, limits = vstack([excess, sizes], format="csr"), np.concatenate([limits, capacity[narrow]])
    programme = _Programme(cost, groups.cells, np.ones(len(cost)), excess, limits)
    shares, multipliers = _solved(programme, generator, None if near is None else near.multipliers)
    prices = programme.prices(multipliers)
    bound = sum(float(priced.min(axis=1).sum()) for _, priced in programme.priced(prices)) - float(limits @ multipliers)
    return Assignment(shares, float(shares.multiply(cost).sum()), prices, bound, multipliers)


def _solved(
    programme: _Programme, generator: np.random.Generator, multipliers: Floats | None = None
) -> tuple[csr_array, Floats]:
    """Optimal x (N, K) and multipliers (R,), searched from the given multipliers or, without them, from a sample."""
    cost, cells, weights, excess, _ = programme
    points, clusters = cost.shape
    if excess.shape[0] == 0:
        all_rows = np.arange(points)
        return csr_array((np.ones(points), (all_rows, cost.argmin(axis=1))), shape=cost.shape), np.empty(0)
    # Prices from n points have an error of about sqrt(K / n), which moves about that share of the points.
    limit, width = int(4 * np.sqrt(clusters * points)), 0.5
    if multipliers is None and points <= _COARSEST:
        multipliers, limit, width = np.zeros(excess.shape[0]), points * clusters, _FAR
    elif multipliers is None:
        subset = stratified(cells, 1 / _GROWTH, generator)
        mass = np.bincount(cells, weights) / np.bincount(cells[subset], weights[subset])  # that each one represents
        heavier = weights[subset] * mass[cells[subset]]
        sample = programme._replace(cost=cost[subset], cells=cells[subset], weights=heavier)
        _, multipliers = _solved(sample, generator)
    while True:
        prices = programme.prices(multipliers)
        keys, scale = _near(programme, prices, limit)
        while True:
            rows, columns = np.divmod(keys, clusters)
            amounts, proposed, outside = _restricted(programme, rows, columns, multipliers, scale, width)
            prices = programme.prices(proposed)
            least = np.minimum.reduceat(cost[rows, columns] + prices[cells[rows], columns], _firsts(rows))
            cheaper = _cheaper(programme, prices, least - _TOLERANCE * scale, limit)
            if not len(cheaper):
                break
            keys = np.union1d(keys, cheaper)
        multipliers, width = proposed, 2 * width
        if outside <= _MISSED:
            break
    nonzero = amounts > 0
    entries = amounts[nonzero] / weights[rows[nonzero]], (rows[nonzero], columns[nonzero])
    return csr_array(entries, shape=cost.shape), multipliers


def _firsts(rows: Ints) -> Ints:
    """Position at which each row begins in a sorted array of row numbers."""
    return np.flatnonzero(np.diff(rows, prepend=-1))


def _near(programme: _Programme, prices: Floats, limit: int) -> tuple[Ints, float]:
    """Keys p K + k of the best columns of each row, including ties, and of the `limit` next best columns overall.

    Also returns the largest difference of these from the best of their row.
    """
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
        if len(as_good) < limit:
            as_good = np.concatenate([as_good, first + np.flatnonzero(gap <= tied)])
        near = np.flatnonzero((gap > tied) & (gap < (gaps.max() if len(gaps) == limit else np.inf)))
        kept, gaps = _least(np.concatenate([gaps, gap[near]]), limit)
        keys = np.concatenate([keys, first + near])[kept]
    scale = float(gaps.max(initial=0.0)) or float(np.abs(programme.cost).max()) or 1.0
    return np.unique(np.concatenate([*best, as_good[:limit], keys])), scale


def _cheaper(programme: _Programme, prices: Floats, least: Floats, limit: int) -> Ints:
    """Keys p K + k of the best column of each row that costs less than `least` (N,).

    Of more than `limit` such columns only the best are returned, since they may make the others unnecessary.
    """
    keys, excess = np.empty(0, dtype=np.int64), np.empty(0)
    for block, priced in programme.priced(prices):
        lowest = priced.min(axis=1) - least[block]
        rows = np.flatnonzero(lowest < 0)
        kept, excess = _least(np.concatenate([excess, lowest[rows]]), limit)
        keys = np.concatenate([keys, (rows + block.start) * priced.shape[1] + priced[rows].argmin(axis=1)])[kept]
    return keys


def _least(values: Floats, count: int) -> tuple[Ints | slice, Floats]:
    """Positions and values of the `count` smallest values."""
    if len(values) <= count:
        return slice(None), values
    kept = np.argpartition(values, count - 1)[:count]
    return kept, values[kept]


def _restricted(
    programme: _Programme, rows: Ints, columns: Ints, centre: Floats, scale: float, width: float
) -> tuple[Floats, Floats, float]:
    """Solve the programme with these columns x_pk only, and multipliers within width * scale of the centre (R,).

    In the primal, each bound v <= 0 becomes a cost, the maximum of l v over its multiplier l. The variables are x of
    points with several columns, the totals T_gk, and the two parts of each v.

    Returns:
        x of each column times the weight of its point, the multipliers (R,), and the number of points by which the
        walls of the box cause bounds to be violated, or complementary slackness to fail.
    """
    cost, cells, weights, excess, limits = programme
    clusters, (bounds, totals) = cost.shape[1], excess.shape
    into = cells[rows] * clusters + columns
    unit = float(weights.mean())  # unit of x, since the tolerances of the solver are absolute
    amounts, limits = weights[rows] / unit, limits / unit
    counts = np.diff(_firsts(rows), append=len(rows))
    free = np.repeat(counts > 1, counts)
    fixed = np.bincount(into[~free], amounts[~free], totals)
    points, place = np.unique(rows[free], return_inverse=True)
    count = len(place)

    low, high = np.maximum(centre / scale - width, 0), centre / scale + width
    extra_cost = cost[rows, columns][free] / scale
    if count:
        extra_cost -= np.minimum.reduceat(extra_cost, _firsts(place))[place]
    each = np.arange(count)
    simplices = coo_array((np.ones(count), (place, each)), shape=(len(points), count))
    sums = coo_array((np.ones(count), (into[free], each)), shape=(totals, count))
    identity = eye_array(bounds)
    paid = np.concatenate([extra_cost, np.zeros(totals), high, -low])
    constraints = block_array(
        [[simplices, None, None, None], [sums, -eye_array(totals), None, None], [None, excess, -identity, identity]],
        format="csc",
    )
    required = np.concatenate([weights[points] / unit, -fixed, limits])
    for method in ("highs-ds", "highs-ipm"):  # one method may succeed where the other fails by rounding
        result = linprog(paid, A_eq=constraints, b_eq=required, method=method)
        if result.x is not None:
            break
    else:
        raise RuntimeError(f"HiGHS did not solve the fair assignment: {result.message}")
    amounts[free] = np.maximum(result.x[:count], 0)
    over, under = result.x[-2 * bounds : -bounds], result.x[-bounds:]
    multipliers = np.clip(-result.eqlin.marginals[len(result.eqlin.marginals) - bounds :], low, high)
    return amounts * unit, multipliers * scale, float(over.sum() + under[low > 0].sum())
