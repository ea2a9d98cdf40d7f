"""Kernel K-means on the neighbour graph."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
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
from clustering.graphs.row_graph import graph_and_variance, scipy_graph
from clustering.graphs.sparse_graph import SparseGraph
from clustering.metrics import graph_objectives
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds, plus_plus
from clustering.starts import best_start, cluster_sizes, empty_clusters


@dataclass(eq=False, repr=False)
class KernelKMeans(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel K-means with the affinities of the kNN graph as kernel (average association).

    Minimises -sum_k S_k^T W S_k / |S_k|, which up to a constant is sum_k sum_{p in k} ||phi(x_p) - mean_k||^2 for the
    kernel A = W + shift I, whatever the shift (thesis eq. 1.14). From the first clusters, single points are moved as
    long as that lowers the objective (`clustering.graphs.point_moves`); an empty cluster first gets the point that
    costs least. Rounds in which all points move to the nearest mean, before the single moves, lower the objective by
    less than 0.1 % (-49.520 against -49.511 on digits). There is no `predict`.

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
    max_iter : maximum number of rounds of moves of a start.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    objective_ : the objective above, of labels_. start_objectives_ : (n_init,) objective of each start.
    n_iter_ : number of rounds of moves of the best start. converged_ : whether no single move lowers the objective.
    n_empty_ : number of empty clusters in the result.
    graph_ : W. seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    revision: ClassVar[int] = 2

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    n_neighbors: Annotated[int, AtLeast(1)] = 5
    symmetry: Literal["average", "union", "mutual"] = "average"
    init: str | ArrayLike = "spectral"
    n_init: Annotated[int, AtLeast(1)] = 8
    normalize: Literal["l2"] | None = None
    max_iter: Annotated[int, AtLeast(1)] = 100
    device: Device = "cpu"
    random_state: Any = None

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> "KernelKMeans":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, as in scikit-learn.

        Args:
            graph: affinities W, see `clustering.graphs.row_graph.given_graph`; built from X if None.

        Raises:
            InputError: a parameter, X or the graph is invalid, or there are fewer distinct points than clusters.
        """
        validate_signature(self)
        rows = Rows.of(checked_rows(self, X, reset=True, normalize=self.normalize, device=self.device))
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
        matrix, ones = self.graph_.matrix().astype(np.float64), np.ones(points)
        moved = [single_moves(matrix, ones, start, K, self.max_iter) for start in labels.cpu().numpy()]
        objectives = torch.tensor(
            [graph_objectives(one.labels, matrix).average_association for one in moved], dtype=torch.float64
        )
        ended = torch.from_numpy(np.stack([one.labels for one in moved]))
        best = best_start(objectives, cluster_sizes(ended, K), torch.float64)
        self.labels_, _ = numbered(self, moved[best].labels)
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives.numpy()
        self.n_iter_, self.converged_ = moved[best].rounds, moved[best].converged
        self.n_empty_ = empty_clusters(ended[best], K)
        self.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())
        return self

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
            regularization=regularization,
            max_rounds=self.max_iter,
        )
        labels = cuts.labels if components <= K else np.concatenate([cuts.labels, densest_apart(graph, K)[None]])
        return torch.from_numpy(labels).to(rows.values.device)


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
