"""Fairlets in near-linear time by a random tree (Backurs, Indyk, Onak, Schieber, Vakilian and Wagner, ICML 2019)."""

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import stream
from clustering.foundation.timing import Stopwatch
from fairness.fit_input import SmallGroups, warn_if_groups_are_y
from fairness.objectives import Kind
from fairness.rivals.fairlets import fit_fairlets, wanted_balance
from fairness.rivals.given import Floats, Ints, given

_DEPTH = 40
"""Number of halvings of the box after which points count as coincident."""


class Backurs(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Fairlets are formed within the cells of a randomly shifted quadtree, and the fairlets are clustered.

    The method is for two groups. A fairlet has at least p points of one group for every q of the other, hence a cluster
    of fairlets has a balance of at least p / q. From the top down, each cell of the tree removes a few points from its
    children, so that every child stays balanced, and forms fairlets from them. All cells of a level are processed
    together: each of at most 40 levels needs a few sorts of the remaining points and a few arrays of length N. K-median
    or K-means is then applied to the points at the positions of their fairlet centres. The public code counts each
    centre once, whatever the size of its fairlet.

    Parameters
    ----------
    n_clusters : number of clusters K.
    balance : p, q with p <= q, at most the balance of the data. None uses the largest such p / q with p + q <= 10;
        large fairlets, such as those of 49, 100, cost more than the small gain in balance is worth.
    kind : "kmedian" (paper) or "kmeans".
    init : "k-means++", or (K, D) initial centres, in which case there is a single start.
    n_init : number of starts of K-median; the one with the lowest cost of the fairlet centres is kept.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    small_groups : "error" rejects a group with fewer points than clusters; "keep" accepts it, and some clusters stay
        empty.
    max_iter : maximum number of iterations of K-median.
    random_state : seed or generator of the shift and of the starts.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point; the points of a fairlet share a cluster.
    fairlets_ : (N,) int, 0..F-1, fairlet of each point. fairlet_cost_ : sum of the distances of all points to the
        centres of their fairlets.
    balance_wanted_ : (p, q), the balance of the fairlets.
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
        self.kind = kind
        self.init = init
        self.n_init = n_init
        self.normalize = normalize
        self.small_groups = small_groups
        self.max_iter = max_iter
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Any = None) -> "Backurs":
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
        if data.groups.trivial:
            self.balance_wanted_, fairlets = (1, 1), np.arange(len(data.values))
        else:
            self.balance_wanted_ = wanted_balance(self.balance, data.groups, "Backurs", most=10)
            fairlets = tree_fairlets(
                data.values, data.groups.cells, *self.balance_wanted_, stream(data.seed, "tree of fairlets")
            )
        fit_fairlets(self, data, fairlets, watch)
        return self


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
    rank = _before(np.ones(len(parts), dtype=np.int64), segments)
    chosen: NDArray[np.bool_] = rank < take.reshape(-1)[segments]
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

    order = np.lexsort((colours, cell))
    rank = np.empty(len(cells), dtype=np.int64)
    rank[order] = _before(np.ones(len(cells), dtype=np.int64), (2 * cell + colours)[order])
    is_major = colours == major[cell]
    size = np.where(is_major, q, p)
    after = rank - fairlet_count[cell] * size
    first = np.where(is_major, uneven[cell], np.where(uneven[cell] > 0, p, 0))
    late = np.where(few[cell] | (after < first), 0, after - first + (uneven[cell] > 0))
    local = np.where(after < 0, rank // size, fairlet_count[cell] + late)
    _, fairlets = np.unique(cell * (len(cells) + 1) + local, return_inverse=True)
    return fairlets.astype(np.int64), int(fairlets.max()) + 1
