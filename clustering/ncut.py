"""Normalised cut of the neighbour graph, by its eigenvectors and moves of single points."""

import warnings
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state

from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.foundation.streams import stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.relaxed_cut import Discretize, relaxed_cut
from clustering.graphs.row_graph import graph_and_variance, scipy_graph
from clustering.graphs.sparse_rows import rows_of
from clustering.metrics import graph_objectives
from clustering.numbering import numbered
from clustering.seeding import plus_plus
from clustering.starts import best_start, cluster_sizes, empty_clusters


class Ncut(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Spectral clustering (Shi and Malik 2000) of the kNN graph.

    Lowers sum_k cut(k) / vol(k) = K - sum_k S_k^T W S_k / d^T S_k (thesis eq. 1.11), from its relaxation: the rows of
    the K leading eigenvectors of D^-1/2 W D^-1/2 are clustered by K-means, or rotated towards labels (Yu and Shi 2003).
    Then single points move, one after the other, as long as that lowers the cut (`clustering.graphs.point_moves`),
    which may be far below that of the labels they began with. Of several starts the lowest cut is taken. There is no
    `predict`: the method says nothing of points outside the graph.

    A graph of more than K components has cuts of cost 0, which are not worth much where some components are a few
    points: the components are then joined to K clusters of like volume, with a warning. A little `regularization` ties
    all points together and avoids this (Zhang and Rohe 2018). A point without arcs is labelled as the nearest that has.

    Parameters
    ----------
    n_clusters : K.
    n_neighbors : k of the graph, the point itself not counted; N - 1 where there are fewer others.
    symmetry : how arcs become W: "average" (W + W^T) / 2, "union" or "mutual".
    regularization : t >= 0 of W + t mean(d) / N, an arc of little weight between all pairs of points. It counts for
        the eigenvectors and for the moves, but not for `objective_`, by which starts are compared.
    discretize : from eigenvectors to first labels: "kmeans", "rotation", or "both" in turns, K-means first.
    n_init : starts.
    normalize : "l2": rows are divided by their length, zero rows stay. None: as they are.
    max_iter : rounds of K-means or of the rotation at most, and as many of the moves.
    random_state : seed of the starts. Fits with different seeds give the same labels where their best starts end at the
        same cut, as they do on graphs with clear clusters.

    Attributes
    ----------
    labels_ : (N,) int.
    embedding_ : (N, K) rows of eigenvectors, of length one; 0 for points without arcs.
    objective_ : the normalised cut of W, 0..K. start_objectives_ : (n_init,) that of every start.
    n_iter_ : rounds of the result. n_empty_ : clusters without points in the result.
    graph_ : W. seconds_ : `clustering.foundation.timing.Seconds` of the fit. n_features_in_, feature_names_in_ : of
        scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        n_neighbors: Annotated[int, AtLeast(1)] = 5,
        symmetry: Literal["average", "union", "mutual"] = "average",
        regularization: Annotated[float, AtLeast(0)] = 0.0,
        discretize: Discretize = "both",
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
            graph: W, see `clustering.graphs.row_graph.given_graph`; built from X where None.

        Raises:
            InputError: a parameter, X or graph that cannot be; fewer points than clusters, or fewer with arcs.
        """
        validate_signature(self)
        rows = rows_of(checked_rows(self, X, reset=True, normalize=self.normalize, accept_sparse=True))
        K = self.n_clusters
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        watch = Stopwatch()
        if graph is None:
            plus_plus(rows, K, [stream(seed, "distinct")])  # that there are as many distinct points as clusters
        self.graph_, _ = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, bandwidth=1.0)
        affinities = scipy_graph(self.graph_)
        graph_seconds = watch.lap()
        found = relaxed_cut(
            affinities,
            rows,
            K,
            self.n_init,
            seed,
            discretize=self.discretize,
            regularization=self.regularization,
            max_rounds=self.max_iter,
        )
        if found.components > K > 1 and self.regularization == 0:
            warnings.warn(
                f"the graph has {found.components} components, more than {K} clusters: they are joined as they are; a "
                "larger n_neighbors or some regularization, such as 0.1, gives clusters of more use",
                stacklevel=3,
            )
        objectives = np.array([graph_objectives(own, affinities).normalised_cut for own in found.labels])
        every = torch.from_numpy(found.labels)
        best = best_start(torch.from_numpy(objectives), cluster_sizes(every, K), torch.float64)
        self.labels_, _ = numbered(self, found.labels[best])
        self.embedding_, self.n_iter_ = found.embedding, found.rounds[best]
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives
        self.n_empty_ = empty_clusters(every[best], K)
        self.seconds_ = Seconds(graph_seconds, 0.0, watch.lap())
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
