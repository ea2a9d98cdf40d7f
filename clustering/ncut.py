"""Normalised cut of the neighbour graph, by its eigenvectors."""

import warnings
from typing import Annotated, Any, Literal

import numpy as np
import sklearn.cluster
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state

from clustering.centres import Rows
from clustering.cores import shared_if_large
from clustering.errors import InputError
from clustering.estimator_input import checked_rows
from clustering.metrics import graph_objectives
from clustering.numbering import numbered
from clustering.parameters import AtLeast, validate_signature
from clustering.row_graph import graph_and_variance, scipy_graph
from clustering.row_search import nearest_to
from clustering.seeding import plus_plus
from clustering.sparse_rows import SparseRows, SparseTable, rows_of
from clustering.spectrum import leading_eigenvectors
from clustering.starts import best_start, cluster_sizes, empty_clusters
from clustering.streams import stream
from clustering.timing import Seconds, Stopwatch

Labels = NDArray[np.int64]
Embedding = NDArray[np.float64]


class Ncut(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Spectral clustering (Shi and Malik 2000) of the kNN graph.

    Lowers sum_k cut(k) / vol(k) = K - sum_k S_k^T W S_k / d^T S_k (thesis eq. 1.11) by its relaxation: the rows of the
    K leading eigenvectors of D^-1/2 W D^-1/2, which are then rotated towards labels (Yu and Shi 2003) or clustered by
    K-means. Of several starts of that the lowest cut is taken. There is no `predict`: the method says nothing of points
    outside the graph.

    A graph of more than K components has cuts of cost 0, which are not worth much where some components are a few
    points: the components are then joined to K clusters of like volume, with a warning. A little `regularization` ties
    all points together and avoids this (Zhang and Rohe 2018). A point without arcs is labelled as the nearest that has.

    Parameters
    ----------
    n_clusters : K.
    n_neighbors : k of the graph, the point itself not counted; N - 1 where there are fewer others.
    symmetry : how arcs become W: "average" (W + W^T) / 2, "union" or "mutual".
    regularization : t >= 0 of W + t mean(d) / N, an arc of little weight between all pairs of points.
    discretize : "rotation" or "kmeans".
    n_init : starts of the rotation or of K-means.
    normalize : "l2": rows are divided by their length, zero rows stay. None: as they are.
    max_iter : rounds of the rotation or of K-means at most.
    random_state : seed of the starts.

    Attributes
    ----------
    labels_ : (N,) int.
    embedding_ : (N, K) rows of eigenvectors, of length one; 0 for points without arcs.
    objective_ : the normalised cut of W, 0..K. start_objectives_ : (n_init,) that of every start.
    n_iter_ : rounds of the result. n_empty_ : clusters without points in the result.
    graph_ : W. seconds_ : `clustering.timing.Seconds` of the fit. n_features_in_, feature_names_in_ : of scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        n_neighbors: Annotated[int, AtLeast(1)] = 5,
        symmetry: Literal["average", "union", "mutual"] = "average",
        regularization: Annotated[float, AtLeast(0)] = 0.0,
        discretize: Literal["rotation", "kmeans"] = "rotation",
        n_init: Annotated[int, AtLeast(1)] = 8,
        normalize: Literal["l2"] | None = None,
        max_iter: Annotated[int, AtLeast(1)] = 100,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.symmetry = symmetry
        self.regularization = regularization
        self.discretize = discretize
        self.n_init = n_init
        self.normalize = normalize
        self.max_iter = max_iter
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> "Ncut":
        """Cluster the rows of X, (N, D) finite, dense or scipy sparse; `y` is ignored, as in scikit-learn.

        Args:
            graph: W, see `clustering.row_graph.given_graph`; built from X where None.

        Raises:
            InputError: a parameter, X or graph that cannot be; fewer points than clusters, or fewer with arcs.
        """
        validate_signature(self)
        rows = rows_of(checked_rows(self, X, reset=True, normalize=self.normalize, accept_sparse=True))
        points, K = len(rows.values), self.n_clusters
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        watch = Stopwatch()
        if graph is None:
            plus_plus(rows, K, [stream(seed, "distinct")])  # that there are as many distinct points as clusters
        self.graph_, _ = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, bandwidth=1.0)
        affinities = scipy_graph(self.graph_)
        graph_seconds = watch.lap()
        linked = np.flatnonzero(affinities.sum(axis=1) > 0)
        if len(linked) < K and K > 1:
            raise InputError(f"{len(linked)} points have arcs, too few for {K} clusters; give a graph with more arcs")
        part = affinities if len(linked) == points else affinities[linked][:, linked]
        labels, embedding, rounds = self._labels(part, seed)
        if len(linked) < points:
            labels, embedding = self._spread(labels, embedding, linked, rows)
        objectives = np.array([graph_objectives(own, affinities).normalised_cut for own in labels])
        every = torch.from_numpy(labels)
        best = best_start(torch.from_numpy(objectives), cluster_sizes(every, K), torch.float64)
        self.labels_, _ = numbered(self, labels[best])
        self.embedding_, self.n_iter_ = embedding, rounds[best]
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives
        self.n_empty_ = empty_clusters(every[best], K)
        self.seconds_ = Seconds(graph_seconds, 0.0, watch.lap())
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _labels(self, graph: csr_array, seed: int) -> tuple[Labels, Embedding, list[int]]:
        """(T, n) labels of the starts, (n, K) embedding, and the rounds of each start, of a graph without isolated
        points."""
        components, of = connected_components(graph, directed=False)
        if self.n_clusters == 1 or (components > self.n_clusters and self.regularization == 0):
            if self.n_clusters > 1:
                warnings.warn(
                    f"the graph has {components} components, more than {self.n_clusters} clusters: they are joined as "
                    "they are; a larger n_neighbors or some regularization, such as 0.1, gives clusters of more use",
                    stacklevel=4,
                )
            labels = joined(np.bincount(of, graph.sum(axis=1)).astype(np.float64), self.n_clusters)[of]
            return labels[None], np.eye(self.n_clusters)[labels], [1]
        vectors = leading_eigenvectors(graph, self.n_clusters, self.regularization, stream(seed, "eigenvectors"))
        embedding = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        starts = [stream(seed, self.discretize, trial) for trial in range(self.n_init)]
        if self.discretize == "rotation":
            found = [rotated(embedding, start, self.max_iter) for start in starts]
        else:
            found = [self._k_means(embedding, start) for start in starts]
        return np.stack([labels for labels, _ in found]), embedding, [rounds for _, rounds in found]

    def _k_means(self, embedding: Embedding, generator: np.random.Generator) -> tuple[Labels, int]:
        state = int(generator.integers(2**31))
        found = sklearn.cluster.KMeans(self.n_clusters, n_init=1, max_iter=self.max_iter, random_state=state)
        found.fit(embedding)
        return found.labels_.astype(np.int64), int(found.n_iter_)

    def _spread(
        self, labels: Labels, embedding: Embedding, linked: NDArray[np.intp], rows: Rows
    ) -> tuple[Labels, Embedding]:
        """Labels and embedding of all points, those without arcs labelled as the nearest with arcs."""
        values = rows.values
        isolated = np.setdiff1d(np.arange(len(values)), linked)
        every = np.zeros((len(labels), len(values)), dtype=np.int64)
        vectors = np.zeros((len(values), self.n_clusters))
        every[:, linked], vectors[linked] = labels, embedding
        if len(linked):
            known = (
                SparseTable.of_scipy(rows.values.scipy()[linked]) if isinstance(rows, SparseRows) else values[linked]
            )
            near = nearest_to(known, values[isolated], 1)[:, 0].numpy()
            every[:, isolated] = every[:, linked[near]]
        return every, vectors


def joined(volumes: NDArray[np.float64], clusters: int) -> Labels:
    """(c,) the cluster of each component, the largest first to the cluster of the least volume so far."""
    labels = np.zeros(len(volumes), dtype=np.int64)
    filled = np.zeros(clusters)
    for component in np.argsort(-volumes, kind="stable"):
        labels[component] = filled.argmin()
        filled[labels[component]] += volumes[component]
    return labels


def rotated(embedding: Embedding, generator: np.random.Generator, max_rounds: int) -> tuple[Labels, int]:
    """(n,) labels whose indicators are next to a rotation of the embedding (n, K) of unit rows, and the rounds it took.

    Labels and rotation are found in turns, each the best for the other, from the rotation to K rows that are as
    orthogonal as can be, the first drawn at random (Yu and Shi 2003).
    """
    points, clusters = embedding.shape
    axes = np.empty((clusters, clusters))
    axes[:, 0] = embedding[generator.integers(points)]
    overlap = np.zeros(points)
    for k in range(1, clusters):
        overlap += np.abs(embedding @ axes[:, k - 1])
        axes[:, k] = embedding[overlap.argmin()]
    agreement = -np.inf
    rounds = 0
    while rounds < max_rounds:
        rounds += 1
        labels = (embedding @ axes).argmax(axis=1)
        sums = np.zeros((clusters, clusters))
        np.add.at(sums, labels, embedding)
        left, singular, right = np.linalg.svd(sums)
        axes = right.T @ left.T
        if singular.sum() <= agreement * (1 + 1e-12):
            break
        agreement = singular.sum()
    return labels.astype(np.int64), rounds
