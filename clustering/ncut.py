"""Normalised cut of the neighbour graph, by eigenvectors followed by moves of single points."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.relaxed_cut import relaxed_cut
from clustering.graphs.row_graph import graph_and_variance, scipy_graph
from clustering.metrics import graph_objectives
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import plus_plus
from clustering.starts import best_start, cluster_sizes, empty_clusters


@dataclass(eq=False, repr=False)
class Ncut(ClusterMixin, BaseEstimator):  # type: ignore[misc]
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
    n_init : number of starts.
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

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    n_neighbors: Annotated[int, AtLeast(1)] = 5
    symmetry: Literal["average", "union", "mutual"] = "average"
    regularization: Annotated[float, AtLeast(0)] = 0.0
    n_init: Annotated[int, AtLeast(1)] = 8
    normalize: Literal["l2"] | None = None
    max_iter: Annotated[int, AtLeast(1)] = 100
    random_state: Any = None

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> "Ncut":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, as in scikit-learn.

        Args:
            graph: affinities W, see `clustering.graphs.row_graph.given_graph`; built from X if None.

        Raises:
            InputError: a parameter, X or the graph is invalid, or there are fewer points with arcs than clusters.
        """
        validate_signature(self)
        rows = Rows.of(checked_rows(self, X, reset=True, normalize=self.normalize))
        K = self.n_clusters
        seed = seed_of(self.random_state)
        watch = Stopwatch()
        if graph is None:
            plus_plus(rows, K, [stream(seed, "distinct")])  # raises if there are fewer distinct points than clusters
        self.graph_, _ = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, bandwidth=1.0)
        affinities = scipy_graph(self.graph_)
        graph_seconds = watch.lap()
        cuts = relaxed_cut(
            affinities,
            rows,
            K,
            self.n_init,
            seed,
            regularization=self.regularization,
            max_rounds=self.max_iter,
        )
        if cuts.components > K > 1 and self.regularization == 0:
            warnings.warn(
                f"the graph has {cuts.components} components, more than {K} clusters: whole components are "
                "merged into clusters; a larger n_neighbors or some regularization, such as 0.1, gives more "
                "useful clusters",
                stacklevel=3,
            )
        objectives = np.array([graph_objectives(labels, affinities).normalised_cut for labels in cuts.labels])
        all_labels = torch.from_numpy(cuts.labels)
        best = best_start(torch.from_numpy(objectives), cluster_sizes(all_labels, K), torch.float64)
        self.labels_, _ = numbered(self, cuts.labels[best])
        self.embedding_, self.n_iter_ = cuts.embedding, cuts.rounds[best]
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives
        self.n_empty_ = empty_clusters(all_labels[best], K)
        self.seconds_ = Seconds(graph_seconds, 0.0, watch.lap())
        return self
