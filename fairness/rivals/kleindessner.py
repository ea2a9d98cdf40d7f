"""Spectral clustering with fairness constraints (Kleindessner, Samadi, Awasthi and Morgenstern, ICML 2019)."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import stream
from clustering.foundation.timing import Seconds
from clustering.graphs.row_graph import graph_and_variance, scipy_graph
from clustering.metrics import graph_objectives
from clustering.optimiser.rows import Rows
from fairness.fit_input import warn_if_groups_are_y
from fairness.optimiser.fair_spectrum import embedded_labels, fair_embedding
from fairness.rivals.base import Data, Rival


@dataclass(eq=False, repr=False)
class Kleindessner(Rival):
    """Relaxed normalised cut of the neighbour graph among indicators that are fair on average (Algorithm 3 of the
    paper).

    Clusters have exactly the proportions of the data if and only if F^T H = 0, where F (N, J) are the group indicators
    minus the group shares, and H the cluster indicators. The relaxation takes the K vectors h = D^-1/2 y with the
    largest eigenvalues of P D^-1/2 W D^-1/2 P, where P projects onto the orthogonal complement of D^-1/2 F, and
    clusters the rows of H by K-means.

    The constraint applies to H only, so labels may be unfair, and its weight cannot be changed. The paper computes the
    square root of an N x N matrix; here P is never formed, and Lanczos iterations find the same vectors from the graph
    and about 4 K vectors of length N. There may be any number of groups; several attributes are constrained jointly.

    If the graph has more components than clusters that can be combined fairly, there are many cuts of cost 0; the
    choice among them is arbitrary, and a warning is raised. A point without arcs takes the label of the nearest point
    that has arcs.

    Parameters
    ----------
    n_neighbors : number of neighbours k in the graph, not counting the point itself; at most N - 1 are used. The thesis
        says 20, its code uses 19, see `fairness.FairNcut`.
    symmetry : how the directed kNN graph is made symmetric: "average" (W + W^T) / 2, "union" or "mutual".
    n_init : number of starts of K-means on the rows of H; the one with the lowest K-means objective is kept.

    For the other parameters, and the other fitted attributes, see `fairness.rivals.base.Rival`.

    Attributes
    ----------
    objective_ : normalised cut of W by the labels, 0..K, the only value of `history_`.
    embedding_ : (N, K) rows of H; 0 for points without arcs. graph_ : W.
    """

    kind = "ncut"

    _: KW_ONLY
    n_neighbors: Annotated[int, AtLeast(1)] = 19
    symmetry: Literal["average", "union", "mutual"] = "average"
    n_init: Annotated[int, AtLeast(1)] = 10

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Any = None, graph: Any = None) -> Self:
        """Cluster the rows of X, as `Rival.fit`.

        Args:
            graph: affinities W, see `clustering.graphs.row_graph.given_graph`; built from X if None.

        Raises:
            InputError: also if the graph is invalid, or there are fewer points with arcs than clusters.
        """
        warn_if_groups_are_y(y, sensitive_features)
        self._cluster(self._checked(X, sensitive_features), graph)
        return self

    def _cluster(self, data: Data, graph: Any = None) -> None:
        rows, K = Rows.of(torch.from_numpy(data.values)), self.n_clusters
        self.graph_, _ = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, bandwidth=1.0)
        affinities = scipy_graph(self.graph_)
        graph_seconds = data.watch.lap()
        generator = stream(data.seed, "fair eigenvectors")
        self.embedding_, arbitrary = np.zeros((len(data.values), K)), False
        if K > 1:
            self.embedding_, arbitrary = fair_embedding(affinities, data.groups, K, generator)
        if arbitrary:
            warnings.warn(
                f"the graph has so many components that more than {K} vectors have cost 0, and the choice among "
                "them is arbitrary; set a larger n_neighbors",
                stacklevel=4,
            )
        labels = embedded_labels(self.embedding_, affinities, rows.values, K, self.n_init, generator)
        cut = graph_objectives(labels, affinities).normalised_cut
        self._keep(labels, data.groups, cut, [cut], Seconds(graph_seconds, 0.0, data.watch.lap()), None)
