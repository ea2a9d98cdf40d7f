"""Fairlets of least cost (Chierichetti, Kumar, Lattanzi and Vassilvitskii, NeurIPS 2017)."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import coo_array, eye_array, hstack, vstack
from scipy.sparse.csgraph import connected_components

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import stream
from fairness.rivals.base import Data, Floats, Ints, costs
from fairness.rivals.fairlets import Fairlets, wanted_balance

_AT_ONCE = 1 << 16
"""Number of edges up to which the solver receives all of them."""

_NEAR = 16
"""With more edges, number of edges per point that the solver receives first, and each time prices require more."""

_TOLERANCE = 1e-7
"""Tolerance of costs, in units of the largest distance."""


@dataclass(eq=False, repr=False)
class Chierichetti(Fairlets):
    """Points are joined to points of the other group at the lowest summed distance, and these fairlets are clustered.

    The method is for two groups. A (1, t) fairlet is one point of one group with 1..t of the other, so clusters of
    fairlets have a balance of at least 1 / t. With t = 1, fairlets are a matching of minimum cost. For larger t the
    exact problem is NP-hard, and the paper relaxes it to a flow. Here fairlets are the stars of a minimum-cost
    bipartite edge cover with degrees of at most t, a linear programme with integral vertices that is solved by column
    generation over the edges. K-median or K-means is then applied to the points at the positions of their fairlet
    centres. The k-center variant of the paper is not implemented.

    More than `part_size` points are split at random into parts with the proportions of the groups, and fairlets are
    formed within parts. Their balance is preserved, but their cost is no longer minimal; the clustering uses all
    points. Time grows with N * part_size, and memory with part_size^2.

    Parameters
    ----------
    balance : 1, t; None uses the smallest t that the data allows.
    part_size : maximum number of points in a part.

    For the other parameters, and the other fitted attributes, see `fairness.rivals.fairlets.Fairlets`.

    Attributes
    ----------
    balance_wanted_ : (1, t), the balance of the fairlets. n_parts_ : number of parts.
    """

    _: KW_ONLY
    part_size: Annotated[int, AtLeast(10)] = 1000

    def _cluster(self, data: Data) -> None:
        self.n_parts_ = 1
        super()._cluster(data)

    def _fairlets(self, data: Data) -> Ints:
        fewer, more = sorted(data.groups.sizes.tolist())
        fairlet_balance = self.balance if self.balance is not None else (1, -(-more // fewer))
        p, q = self.balance_wanted_ = wanted_balance(fairlet_balance, data.groups, "Chierichetti", most=2)
        if p > 1:
            raise InputError(f"Chierichetti: balance must be (1, t), not {p}, {q}; set balance=(1, {-(-q // p)})")
        parts = _parts(data.groups.cells, -(-len(data.values) // self.part_size), stream(data.seed, "parts"))
        fairlets, count = np.empty(len(data.values), dtype=np.int64), 0
        for part in parts:
            members = cheapest_fairlets(data.values[part], data.groups.cells[part], q)
            fairlets[part] = members + count
            count += int(members.max()) + 1
        self.n_parts_ = len(parts)
        return fairlets


def _parts(colours: Ints, count: int, generator: np.random.Generator) -> list[Ints]:
    """Random parts of the points of two colours (N,), each of which can have the balance that all points have."""
    fewer, more = sorted((generator.permutation(np.flatnonzero(colours == colour)) for colour in (0, 1)), key=len)
    count = min(count, len(fewer))
    ends = np.arange(count + 1) * len(fewer) // count
    # The other colour is split in the same proportions, rounded down or up in each part.
    cuts = ends * len(more) // len(fewer)
    return [np.sort(np.concatenate([fewer[ends[i] : ends[i + 1]], more[cuts[i] : cuts[i + 1]]])) for i in range(count)]


def cheapest_fairlets(values: Floats, colours: Ints, t: int) -> Ints:
    """(N,) fairlets 0..F-1 of points (N, D) of two colours (N,).

    Each has one point of a colour and 1..t points of the other, with the lowest sum of distances between the one and
    the others.
    """
    reds, blues = (np.flatnonzero(colours == colour) for colour in (0, 1))
    distances = costs(values[blues], values[reds], "kmedian").T  # (R, B)
    ends = linear_sum_assignment(distances) if t == 1 else _cover(distances, t)
    joined = coo_array((np.ones(len(ends[0])), (reds[ends[0]], blues[ends[1]])), shape=(len(values), len(values)))
    components: NDArray[np.int32] = connected_components(joined, directed=False)[1]
    return components.astype(np.int64)


def _cover(distances: Floats, t: int) -> tuple[Ints, Ints]:
    """Edges (reds, blues) of stars with 1..t edges that cover all nodes at the lowest sum of distances (R, B)."""
    shape = reds, blues = distances.shape
    scaled = distances / (float(distances.max()) or 1.0)
    keys = np.arange(reds * blues) if reds * blues <= _AT_ONCE else _smallest(scaled)
    while True:
        endpoints = np.divmod(keys, blues)
        edges, price_of_red, price_of_blue = _covered(scaled[endpoints], endpoints, shape, t)
        reduced = scaled - price_of_red[:, None] - price_of_blue
        reduced[endpoints] = 0.0
        requested = _smallest(reduced)
        requested = requested[reduced.ravel()[requested] < -_TOLERANCE]
        if not len(requested):
            break
        keys = np.union1d(keys, requested)
    red, blue = endpoints[0][edges], endpoints[1][edges]
    degree_of_red, degree_of_blue = np.bincount(red, minlength=reds), np.bincount(blue, minlength=blues)
    kept = np.ones(len(red), dtype=np.bool_)
    surplus = (degree_of_red[red] > 1) & (degree_of_blue[blue] > 1)  # only edges of length 0, hence few
    for edge in np.flatnonzero(surplus):
        if degree_of_red[red[edge]] > 1 and degree_of_blue[blue[edge]] > 1:
            kept[edge] = False
            degree_of_red[red[edge]] -= 1
            degree_of_blue[blue[edge]] -= 1
    return red[kept], blue[kept]


def _smallest(values: Floats) -> Ints:
    """Keys r B + b of the smallest values (R, B) of each row and of each column."""
    reds, blues = values.shape
    of_red = np.argpartition(values, min(_NEAR, blues) - 1, axis=1)[:, :_NEAR]
    of_blue = np.argpartition(values, min(_NEAR, reds) - 1, axis=0)[:_NEAR]
    return np.union1d((np.arange(reds)[:, None] * blues + of_red).ravel(), (of_blue * blues + np.arange(blues)).ravel())


def _covered(
    lengths: Floats, endpoints: tuple[Ints, Ints], shape: tuple[int, int], t: int
) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Which of the edges an optimal cover uses, and the dual prices of the reds and blues.

    A node may stay uncovered at a cost above any possible saving; lengths are in units of the longest edge.
    """
    edges, nodes = len(lengths), sum(shape)
    each = np.ones(edges), np.arange(edges)
    degrees = vstack(
        [coo_array((each[0], (end, each[1])), shape=(n, edges)) for end, n in zip(endpoints, shape, strict=True)]
    )
    identity = eye_array(nodes)
    result = linprog(
        np.concatenate([lengths, np.zeros(nodes), np.full(nodes, float(nodes))]),
        A_eq=hstack([degrees, -identity, identity], format="csc"),
        b_eq=np.zeros(nodes),
        bounds=np.repeat([[0, np.inf], [1, t], [0, np.inf]], [edges, nodes, nodes], axis=0),
        method="highs-ipm",  # with crossover to an integral vertex; several times faster here than the simplex method
    )
    if result.x is None:
        raise RuntimeError(f"HiGHS did not find fairlets: {result.message}")
    prices = result.eqlin.marginals
    return result.x[:edges] > 0.5, prices[: shape[0]], prices[shape[0] :]
