"""Kernel K-means on the neighbour graph."""

from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClusterMixin
from torch import Tensor

from clustering.estimator_input import Device, checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.point_moves import single_moves
from clustering.graphs.relaxed_cut import relaxed_cut
from clustering.graphs.row_graph import graph_and_variance, scipy_graph, weight_matrix
from clustering.graphs.sparse_graph import SharedGraph, SparseGraph
from clustering.graphs.sparse_rows import rows_of
from clustering.metrics import graph_objectives
from clustering.numbering import numbered
from clustering.optimiser.centres import Rows
from clustering.seeding import first_seeds, plus_plus
from clustering.starts import best_start, cluster_sizes, empty_clusters, indicators


class KernelKMeans(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel K-means with the affinities of the kNN graph as kernel (average association).

    Minimises -sum_k S_k^T W S_k / |S_k|, which up to a constant is sum_k sum_{p in k} ||phi(x_p) - mean_k||^2 for the
    kernel A = W + shift I, whatever the shift (thesis eq. 1.14). Each round assigns every point to the nearest mean, at
    the squared distance a_pp - 2 / |k| sum_{q in k} a_pq + 1 / |k|^2 sum_{q, r in k} a_qr, and recomputes the means; an
    empty cluster restarts at the point farthest from its mean. A round costs one sparse product. If A is positive
    semi-definite, no round raises the objective, but points hardly move. The shift is therefore 0 as long as the
    objective falls, and is increased if it does not, so that the objective falls from round to round. When no shift
    lowers the objective any further, single points are moved while that lowers it (`clustering.graphs.point_moves`).
    There is no `predict`.

    Parameters
    ----------
    n_clusters : number of clusters K.
    n_neighbors : number of neighbours k in the graph, not counting the point itself; at most N - 1 are used.
    symmetry : how the directed kNN graph is made symmetric: "average" (W + W^T) / 2, "union" or "mutual".
    init : first clusters. "spectral" takes those of `Ncut`, which lead to a far lower objective than seeds do; it falls
        back to "k-means++" if W has negative weights or fewer points with arcs than clusters. "k-means++" assigns
        points to the nearest seed. "random" draws labels at random. An array (K, D) gives the seeds of a single start.
    n_init : number of starts; the one with the lowest objective is kept.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    max_iter : maximum number of rounds, including rounds that move single points.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    objective_ : the objective above, of labels_. start_objectives_ : (n_init,) objective of each start.
    n_iter_ : number of rounds of the best start. converged_ : whether no move of a single point lowers the objective.
    n_reseeded_ : number of times an empty cluster was reseeded. n_empty_ : number of empty clusters in the result.
    graph_ : W. seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        n_neighbors: Annotated[int, AtLeast(1)] = 5,
        symmetry: Literal["average", "union", "mutual"] = "average",
        init: str | ArrayLike = "spectral",
        n_init: Annotated[int, AtLeast(1)] = 8,
        normalize: Literal["l2"] | None = None,
        max_iter: Annotated[int, AtLeast(1)] = 100,
        device: Device = "cpu",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.symmetry = symmetry
        self.init = init
        self.n_init = n_init
        self.normalize = normalize
        self.max_iter = max_iter
        self.device = device
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> "KernelKMeans":
        """Cluster the rows of X, (N, D) finite, dense or scipy sparse; `y` is ignored, as in scikit-learn.

        Args:
            graph: affinities W, see `clustering.graphs.row_graph.given_graph`; built from X if None.

        Raises:
            InputError: a parameter, X or the graph is invalid, or there are fewer distinct points than clusters.
        """
        validate_signature(self)
        rows = rows_of(
            checked_rows(self, X, reset=True, normalize=self.normalize, device=self.device, accept_sparse=True)
        )
        points, K = len(rows.values), self.n_clusters
        watch = Stopwatch()
        self.graph_, _ = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, bandwidth=1.0)
        graph_seconds = watch.lap()
        seed = seed_of(self.random_state)
        seeds = "k-means++" if isinstance(self.init, str) and self.init == "spectral" else self.init
        if isinstance(self.init, str) and self.init == "random":
            draws = np.stack([stream(seed, "labels", trial).integers(K, size=points) for trial in range(self.n_init)])
            labels = torch.from_numpy(draws).to(rows.values.device)
        elif isinstance(self.init, str) and self.init == "spectral" and _has_cuts(self.graph_, K):
            labels = self._spectral_labels(rows, seed, distinct=graph is None)
        else:
            labels = rows.squared_distances(first_seeds(seeds, rows, K, self.n_init, seed)).min(dim=1).indices
        seeding_seconds = watch.lap()
        result = kernel_k_means(
            self.graph_,
            torch.zeros(points, dtype=rows.values.dtype, device=rows.values.device),
            labels,
            K,
            self.max_iter,
        )
        best = best_start(result.objectives, cluster_sizes(result.labels, K), rows.values.dtype)
        self.labels_, _ = numbered(self, result.labels[best].cpu().numpy())
        self.objective_, self.start_objectives_ = float(result.objectives[best]), result.objectives.cpu().numpy()
        self.n_iter_, self.n_reseeded_ = int(result.rounds[best]), int(result.reseeded[best])
        self.converged_ = bool(result.converged[best])
        self.n_empty_ = empty_clusters(result.labels[best], K)
        self.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _spectral_labels(self, rows: Rows, seed: int, *, distinct: bool) -> Tensor:
        """(T, N) labels by spectral clustering of the graph.

        Args:
            distinct: check that there are K distinct points, which is required if the graph was built from them.
        """
        if distinct:
            plus_plus(rows, self.n_clusters, [stream(seed, "distinct")])
        graph, K = scipy_graph(self.graph_), self.n_clusters
        components, _ = connected_components(graph, directed=False)
        # With more components than clusters, minimum cuts are trivial unless a little regularisation links all points.
        regularization = 0.1 if components > K else 0.0
        cuts = relaxed_cut(
            graph,
            rows,
            K,
            self.n_init,
            seed,
            discretize="both",
            regularization=regularization,
            max_rounds=self.max_iter,
        )
        labels = cuts.labels if components <= K else np.concatenate([cuts.labels, densest_apart(graph, K)[None]])
        return torch.from_numpy(labels).to(rows.values.device)


class Rounds(NamedTuple):
    """Result of T starts of kernel K-means.

    Attributes:
        labels: (T, N).
        objectives: (T,) tr(A) - sum_k S_k^T A S_k / |S_k|, float64.
        rounds: (T,) number of rounds, including undone ones, int64.
        reseeded: (T,) number of times an empty cluster was reseeded, int64.
        converged: (T,) whether no move of a single point lowers the objective by more than rounding.
        trace: (t, T) objective after each round; the last entry is after the moves of single points.
    """

    labels: Tensor
    objectives: Tensor
    rounds: Tensor
    reseeded: Tensor
    converged: Tensor
    trace: Tensor


def _has_cuts(graph: SparseGraph, clusters: int) -> bool:
    """Whether spectral clustering applies: no weight is negative, and at least K points have arcs."""
    return bool((graph.weights >= 0).all()) and int((graph.degrees > 0).sum()) >= clusters


def densest_apart(graph: csr_array, clusters: int) -> NDArray[np.int64]:
    """Separate the K - 1 densest components of a graph with K or more components.

    Each of the K - 1 components with the largest total weight per point becomes a cluster, and all others form one
    cluster. No other labels without a cut have a larger average association.

    Returns:
        (N,) labels.
    """
    _, component = connected_components(graph, directed=False)
    density = np.bincount(component, graph.sum(axis=1)) / np.bincount(component)
    labels = np.full(len(density), clusters - 1, dtype=np.int64)
    labels[np.argsort(-density, kind="stable")[: clusters - 1]] = np.arange(clusters - 1)
    return np.asarray(labels[component])


def kernel_k_means(kernel: SparseGraph, diagonal: Tensor, labels: Tensor, clusters: int, max_rounds: int) -> Rounds:
    """Run kernel K-means from given labels, each start independently.

    In each round all points move, with the shift of the kernel increased until the objective falls. When no round
    lowers it, single points move.

    Args:
        kernel: a_pq of different points, one problem of N points.
        diagonal: (N,) a_pp.
        labels: (T, N) initial labels.
        clusters: K <= N.
        max_rounds: maximum number of rounds.
    """
    result = _rounds(kernel, diagonal, labels, clusters, max_rounds)
    matrix = weight_matrix(kernel).astype(np.float64)
    matrix += diags_array(diagonal.double().cpu().numpy(), format="csr")
    weights, trace = np.ones(len(diagonal)), float(matrix.trace())
    for start in result.converged.nonzero()[:, 0].tolist():
        before = result.labels[start].cpu().numpy()
        left = max_rounds - int(result.rounds[start])
        moved = single_moves(matrix, weights, before, clusters, left)
        result.labels[start] = torch.from_numpy(moved.labels)
        result.objectives[start] = trace + graph_objectives(moved.labels, matrix).average_association
        result.rounds[start] += moved.rounds
        result.converged[start] = moved.converged
    return result._replace(trace=torch.cat([result.trace, result.objectives[None]]))


def _rounds(kernel: SparseGraph, diagonal: Tensor, labels: Tensor, clusters: int, max_rounds: int) -> Rounds:
    """Rounds in which all points move, see `kernel_k_means`; converged means that no round lowers the objective."""
    shared, current = SharedGraph(kernel), labels.clone()
    reseeded = _fill(current, diagonal.expand_as(current), clusters)
    rounds, converged = torch.zeros_like(reseeded), torch.zeros_like(reseeded, dtype=torch.bool)
    left, means = torch.arange(len(current), device=current.device), _Means.of(shared, diagonal, current, clusters)
    objectives, shift, settled = means.objective.clone(), torch.zeros_like(means.objective), converged.clone()
    # Shifting by the largest absolute row sum makes any kernel positive semi-definite (Gershgorin).
    largest = float(diagonal.abs().max() + replace(kernel, weights=kernel.weights.abs()).degrees.max())
    trace = [means.objective]
    for _ in range(max_rounds):
        before = current[left]
        after, refilled = means.nearest(before, shift)
        new = _Means.of(shared, diagonal, after, clusters)
        rounds[left] += 1
        still = (after == before).all(dim=1)
        rounding = 8 * torch.finfo(diagonal.dtype).eps * (diagonal.abs().sum() + new.within.abs().sum(dim=1))
        better = ~still & (new.objective < means.objective - rounding)
        current[left[better]], objectives[left[better]] = after[better], new.objective[better]
        reseeded[left[better]] += refilled[better]
        trace.append(objectives.clone())
        # If nothing moves, retry without a shift and increase it until the objective falls again.
        retry = still & (shift > 0) & ~settled
        ended = (still & ~retry) | (~still & ~better & (shift > 2 * largest))
        settled = (settled | retry) & ~better
        lower = torch.where(shift > largest / 64, shift / 2, 0.0)
        shift = torch.where(better, lower, torch.where(retry, 0.0, (2 * shift).clamp_min(largest / 64)))
        means = means.replaced(better, new)
        converged[left[ended]] = True
        if ended.any():
            left, shift, settled = left[~ended], shift[~ended], settled[~ended]
            means = _Means(*(part[~ended] for part in means))
        if len(left) == 0:
            break
    return Rounds(current, objectives, rounds, reseeded, converged, torch.stack(trace))


class _Means(NamedTuple):
    """Cluster means of t starts, represented by their inner products with the points."""

    products: Tensor  # (t, K, N) sum_{q in k} a_pq / |k|
    sizes: Tensor  # (t, K) float64
    within: Tensor  # (t, K) sum_{p, q in k} a_pq / |k|, float64
    objective: Tensor  # (t,) float64

    @classmethod
    def of(cls, kernel: SharedGraph, diagonal: Tensor, labels: Tensor, clusters: int) -> "_Means":
        members = indicators(labels, clusters, diagonal.dtype)
        sums = (kernel @ members.mT).mT.addcmul_(members, diagonal)
        sizes = cluster_sizes(labels, clusters)
        within = torch.linalg.vecdot(sums.double(), members.double()) / sizes
        products = sums.div_(sizes.to(sums.dtype)[:, :, None])
        return cls(products, sizes, within, diagonal.sum(dtype=torch.float64) - within.sum(dim=1))

    def replaced(self, chosen: Tensor, new: "_Means") -> "_Means":
        """A copy with the means of some starts replaced."""
        parts = zip(self, new, strict=True)
        return _Means(*(torch.where(chosen.view(-1, *[1] * (a.dim() - 1)), b, a) for a, b in parts))

    def nearest(self, labels: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Labels (t, N) of the nearest means under the shifted kernel; ties keep the present label (t, N).

        Also returns (t,) the number of clusters that would be empty and be reseeded at a point.
        """
        # Squared distances minus a_pp + shift, which is the same for all clusters.
        inverse = shift[:, None] / self.sizes
        lengths = (self.within / self.sizes + inverse).to(self.products.dtype)
        distances = torch.sub(lengths[:, :, None], self.products, alpha=2)
        current = distances.gather(1, labels[:, None])[:, 0] - 2 * inverse.gather(1, labels).to(distances.dtype)
        lowest = distances.min(dim=1)
        after = torch.where(lowest.values < current, lowest.indices, labels)
        return after, _fill(after, torch.minimum(lowest.values, current), self.sizes.shape[1])


def _fill(labels: Tensor, distances: Tensor, clusters: int) -> Tensor:
    """Reseed the empty clusters of labels (T, N) in place and return how many there were, (T,).

    Each takes the point farthest from its mean, by distances (T, N), that is not the only point of its cluster.
    """
    sizes = cluster_sizes(labels, clusters)
    empty = sizes == 0
    for start, cluster in empty.nonzero().tolist():
        is_alone = sizes[start][labels[start]] == 1
        point = distances[start].masked_fill(is_alone, -torch.inf).argmax()
        sizes[start, labels[start, point]] -= 1
        sizes[start, cluster] += 1
        labels[start, point] = cluster
    return empty.sum(dim=1)
