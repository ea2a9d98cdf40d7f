"""Fairlets of least cost (Chierichetti, Kumar, Lattanzi and Vassilvitskii, NeurIPS 2017)."""

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import coo_array, eye_array, hstack, vstack
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import stream
from clustering.foundation.timing import Stopwatch
from fairness.fit_input import SmallGroups, warn_if_groups_are_y
from fairness.objectives import Kind
from fairness.rivals.fairlets import fit_fairlets, wanted_balance
from fairness.rivals.given import Floats, Ints, given
from fairness.rivals.unfair import costs

_AT_ONCE = 1 << 16
"""Number of edges up to which the solver receives all of them."""

_NEAR = 16
"""With more edges, number of edges per point that the solver receives first, and each time prices require more."""

_TOLERANCE = 1e-7
"""Tolerance of costs, in units of the largest distance."""


class Chierichetti(ClusterMixin, BaseEstimator):  # type: ignore[misc]
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
    n_clusters : number of clusters K.
    balance : 1, t; None uses the smallest t that the data allows.
    part_size : maximum number of points in a part.
    kind : "kmedian" (paper) or "kmeans".
    init : "k-means++", or (K, D) initial centres, in which case there is a single start.
    n_init : number of starts of K-median; the one with the lowest cost of the fairlet centres is kept.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    small_groups : "error" rejects a group with fewer points than clusters; "keep" accepts it, and some clusters stay
        empty.
    max_iter : maximum number of iterations of K-median.
    random_state : seed or generator of the parts and of the starts.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point; the points of a fairlet share a cluster.
    fairlets_ : (N,) int, 0..F-1, fairlet of each point. fairlet_cost_ : sum of the distances of all points to the
        centres of their fairlets.
    balance_wanted_ : (1, t), the balance of the fairlets. n_parts_ : number of parts.
    cluster_centers_ : (K, D) medoids, which are rows of X, or means of the clusters, in the space of the normalised
        rows if `normalize` is set.
    objective_ : K-median or K-means objective of the labels, measured from the medoids or means of their clusters.
    history_ : (1,) clustering cost of the fairlet centres. n_iter_ : 1. fairness_error_, balance_min_, balance_mean_,
        group_counts_ (J, K), group_names_, target_, n_empty_,
    absent_groups_ : as in `fairness.FairKMeans`.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : as
        in scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        balance: tuple[int, ...] | None = None,
        part_size: Annotated[int, AtLeast(10)] = 1000,
        kind: Kind = "kmedian",
        init: str | ArrayLike = "k-means++",
        n_init: Annotated[int, AtLeast(1)] = 8,
        normalize: Literal["l2"] | None = None,
        small_groups: SmallGroups = "error",
        max_iter: Annotated[int, AtLeast(1)] = 100,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.balance = balance
        self.part_size = part_size
        self.kind = kind
        self.init = init
        self.n_init = n_init
        self.normalize = normalize
        self.small_groups = small_groups
        self.max_iter = max_iter
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Any = None) -> "Chierichetti":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, with a warning if `sensitive_features` is None.

        Args:
            sensitive_features: attribute with two values, see `fairness.groups.groups_of`; None treats all points as
                one group, which gives plain K-median.

        Raises:
            InputError: a parameter, X or the groups are invalid, there are more than two groups, or the data cannot
                reach the balance.
        """
        warn_if_groups_are_y(y, sensitive_features)
        data, watch = given(self, X, sensitive_features, two_groups=True), Stopwatch()
        points = len(data.values)
        fairlets, self.n_parts_ = np.arange(points), 1
        if data.groups.trivial:
            self.balance_wanted_ = (1, 1)
        else:
            fewer, more = sorted(data.groups.sizes.tolist())
            fairlet_balance = self.balance if self.balance is not None else (1, -(-more // fewer))
            p, q = self.balance_wanted_ = wanted_balance(fairlet_balance, data.groups, "Chierichetti", most=2)
            if p > 1:
                raise InputError(f"Chierichetti: balance must be (1, t), not {p}, {q}; set balance=(1, {-(-q // p)})")
            parts = _parts(data.groups.cells, -(-points // self.part_size), stream(data.seed, "parts"))
            self.n_parts_, count = len(parts), 0
            for part in parts:
                members = cheapest_fairlets(data.values[part], data.groups.cells[part], q)
                fairlets[part] = members + count
                count += int(members.max()) + 1
        fit_fairlets(self, data, fairlets, watch)
        return self


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
