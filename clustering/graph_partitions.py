"""Partitions of the neighbour graph, by eigenvectors or seeds followed by moves of single points: the normalised cut,
and kernel K-means."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.point_moves import single_moves
from clustering.graphs.relaxed_cut import relaxed_cut
from clustering.graphs.row_graph import graph_and_variance, scipy_graph
from clustering.metrics import graph_objectives
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds, plus_plus
from clustering.starts import best_start, cluster_sizes, empty_clusters

_Partitions = tuple[NDArray[np.int64], NDArray[np.float64], list[dict[str, Any]]]
"""Labels (T, N) of T starts, their objectives (T,), and further fitted attributes of each."""


@dataclass(eq=False, repr=False)
class _GraphPartition(ClusterMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """The best of several partitions of the kNN graph; subclasses compute them."""

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    n_neighbors: Annotated[int, AtLeast(1)] = 5
    symmetry: Literal["average", "union", "mutual"] = "average"
    n_init: Annotated[int, AtLeast(1)] = 8
    normalize: Literal["l2"] | None = None
    max_iter: Annotated[int, AtLeast(1)] = 100
    random_state: Any = None

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> Self:
        """Cluster the rows of X, (N, D) finite; `y` is ignored, as in scikit-learn.

        Args:
            graph: affinities W >= 0, see `clustering.graphs.row_graph.given_graph`; built from X if None.

        Raises:
            InputError: a parameter, X or the graph is invalid, or there are fewer distinct points, or points with arcs,
                than clusters.
        """
        validate_signature(self)
        rows = Rows.of(checked_rows(self, X, reset=True, normalize=self.normalize))
        K, seed, watch = self.n_clusters, seed_of(self.random_state), Stopwatch()
        if graph is None:
            plus_plus(rows, K, [stream(seed, "distinct")])  # raises if there are fewer distinct points than clusters
        self.graph_, _ = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, bandwidth=1.0)
        affinities = scipy_graph(self.graph_)
        graph_seconds = watch.lap()
        labels, objectives, facts = self._partitions(rows, affinities, seed)
        best = best_start(torch.from_numpy(objectives), cluster_sizes(torch.from_numpy(labels), K), torch.float64)
        self.labels_, _ = numbered(self, labels[best])
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives
        for name, value in facts[best].items():
            setattr(self, name, value)
        self.n_empty_ = empty_clusters(torch.from_numpy(labels[best]), K)
        self.seconds_ = Seconds(graph_seconds, 0.0, watch.lap())
        return self

    @abstractmethod
    def _partitions(self, rows: Rows, affinities: csr_array, seed: int) -> _Partitions:
        """Labels, objectives and further fitted attributes of all starts."""


@dataclass(eq=False, repr=False)
class Ncut(_GraphPartition):
    """Spectral clustering (Shi and Malik 2000) of the kNN graph.

    Minimises sum_k cut(k) / vol(k) = K - sum_k S_k^T W S_k / d^T S_k (thesis eq. 1.11). The relaxation gives first
    labels: the rows of the K leading eigenvectors of D^-1/2 W D^-1/2 are clustered by K-means. Single points are then
    moved one at a time while that lowers the cut (`clustering.graphs.point_moves`), which often lowers it far below the
    cut of the first labels. The start with the lowest cut is kept. There is no `predict`: the method assigns only the
    points of the graph.

    A graph with more than K components has cuts of cost 0, which are of little use if some components have only a few
    points. In that case the components are merged into K clusters of similar volume, with a warning. A small
    `regularization` links all points and avoids this (Zhang and Rohe 2018). A point without arcs takes the label of the
    nearest point that has arcs.

    Parameters
    ----------
    n_clusters : number of clusters K.
    n_neighbors : number of neighbours k in the graph, not counting the point itself; at most N - 1 are used.
    symmetry : how the directed kNN graph is made symmetric: "average" (W + W^T) / 2, "union" or "mutual".
    regularization : t >= 0. The eigenvectors and the moves use W + t mean(d) / N, which adds an arc of small weight
        between every two points; `objective_`, which ranks the starts, uses W.
    n_init : number of starts of K-means, each improved by moves. As the moves correct most differences, eight suffice.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    max_iter : maximum number of rounds of K-means, and of rounds of moves.
    random_state : seed or generator of the initialisations. Fits with different seeds give the same labels if their
        best starts reach the same cut, as they do on graphs with clear clusters.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    embedding_ : (N, K) rows of the eigenvectors, scaled to unit norm; 0 for points without arcs.
    objective_ : the normalised cut of W, 0..K. start_objectives_ : (n_init,) objective of each start.
    n_iter_ : number of rounds of the best start. n_empty_ : number of empty clusters in the result.
    graph_ : W. seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`. n_features_in_,
        feature_names_in_ : as in scikit-learn.
    """

    revision: ClassVar[int] = 2

    _: KW_ONLY
    regularization: Annotated[float, AtLeast(0)] = 0.0

    def _partitions(self, rows: Rows, affinities: csr_array, seed: int) -> _Partitions:
        cuts, K = relaxed_cut(affinities, rows, self, seed, self.regularization), self.n_clusters
        if cuts.components > K > 1 and self.regularization == 0:
            warnings.warn(
                f"the graph has {cuts.components} components, more than {K} clusters: whole components are "
                "merged into clusters; a larger n_neighbors or some regularization, such as 0.1, gives more "
                "useful clusters",
                stacklevel=4,
            )
        objectives = np.array([graph_objectives(labels, affinities).normalised_cut for labels in cuts.labels])
        return cuts.labels, objectives, [{"embedding_": cuts.embedding, "n_iter_": rounds} for rounds in cuts.rounds]


@dataclass(eq=False, repr=False)
class KernelKMeans(_GraphPartition):
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
    init : first clusters. "spectral" takes those of `Ncut`, which lead to a far lower objective than seeds do.
        "k-means++" assigns points to the nearest seed.
    n_init : number of starts, as for `Ncut`; the one with the lowest objective is kept.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    max_iter : maximum number of rounds of moves of a start.
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

    _: KW_ONLY
    init: Literal["spectral", "k-means++"] = "spectral"

    def _partitions(self, rows: Rows, affinities: csr_array, seed: int) -> _Partitions:
        points, K = len(rows.values), self.n_clusters
        if self.init == "spectral":
            components, _ = connected_components(affinities, directed=False)
            # With more components than clusters, minimum cuts are trivial unless a little regularisation links all.
            labels = relaxed_cut(affinities, rows, self, seed, 0.1 if components > K else 0.0).labels
            if components > K:
                labels = np.concatenate([labels, densest_apart(affinities, K)[None]])
        else:
            seeds = first_seeds("k-means++", rows, K, self.n_init, seed)
            labels = rows.squared_distances(seeds).min(dim=1).indices.numpy()
        moved = [single_moves(affinities, np.ones(points), start, K, self.max_iter) for start in labels]
        labels = np.stack([one.labels for one in moved])
        objectives = np.array([graph_objectives(one, affinities).average_association for one in labels])
        return labels, objectives, [{"n_iter_": one.rounds, "converged_": one.converged} for one in moved]


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
