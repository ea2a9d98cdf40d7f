"""Fair normalised cut (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as a scikit-learn estimator."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.row_graph import graph_and_variance, scipy_graph
from clustering.graphs.sparse_graph import SparseGraph
from clustering.metrics import graph_objectives
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds
from fairness.fit_input import fit_input, warn_if_groups_are_y
from fairness.groups import Groups
from fairness.optimiser.cut_moves import CutProblem
from fairness.optimiser.fair_spectrum import embedded_labels, fair_embedding, linked_points
from fairness.optimiser.moves import Stage
from fairness.reporting import keep_fairness
from fairness.weighted import Data, Weighted


@dataclass(eq=False, repr=False)
class FairNcut(Weighted):
    """Normalised cut of the neighbour graph whose clusters have the sensitive groups in target proportions.

    Minimises, over labels with indicators S_k of the clusters (thesis eq. 3.4, Ncut of Table 3.1, for labels),

        E = K - sum_k S_k' W S_k / d' S_k + weight sum_k KL(U || P_k),     W the symmetric kNN graph, d its degrees,

    by moves of points between clusters, each of which lowers E, as in `FairKMeans` (`fairness.optimiser.moves`). The
    thesis bounds E by tangents in soft assignments instead. The fit starts from the nearest of K seeds and raises the
    weight in rungs. There is no `predict`: the method assigns only the points of the graph. Memory: N x K arrays.

    A graph with more components than clusters has many cuts of cost 0, and fairness among them costs nothing.

    Parameters
    ----------
    n_clusters : number of clusters K.
    fairness_weight : lambda >= 0 of E, in units of the cut, which is 0..K. None uses 10. A goal, such as
        {"max_error": 0.1}, searches for the weight as in `FairKMeans`.
    target, intersectional, small_groups : definition of the groups, as in `FairKMeans`.
    n_neighbors : number of neighbours k in the graph, not counting the point itself; at most N - 1 are used. The
        default of 19 is that of the papers' code, which counts the point itself among its 20.
    init : first labels. "k-means++" takes the nearest seed (papers). "spectral" adds a start from fair spectral
        clustering (`fairness.optimiser.fair_spectrum`), which often leads to far lower cuts and costs K
        eigenvectors of the graph. An array (N,) gives the labels 0..K-1 of a single start.
    n_init : number of starts; the one with the most clusters and, among those, the lowest E is kept.
    max_iter, tol : maximum number of passes at each weight; relative change of E in a pass that counts as none.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    objective_ : normalised cut of W by the labels, summed over clusters that have arcs.
    graph_ : W. n_isolated_ : number of points without arcs, which have no cut cost and are placed by the groups alone.
    history_, n_iter_, converged_, fairness_weight_, weight_path_, fairness_error_, balance_min_, balance_mean_,
    group_counts_, group_names_, target_, absent_groups_, n_empty_, seconds_, n_features_in_, feature_names_in_ : as in
        `FairKMeans`.
    """

    revision: ClassVar[int] = 3

    kind = "ncut"

    _: KW_ONLY
    n_neighbors: Annotated[int, AtLeast(1)] = 19
    init: str | ArrayLike = "spectral"

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, sensitive_features: Any = None, graph: Any = None) -> Self:
        """Cluster the rows of X.

        Args:
            X: (N, D) finite; float32 and float64 are kept, other numbers are converted to float32.
            y: ignored, with a warning if `sensitive_features` is None.
            sensitive_features: as in `FairKMeans.fit`.
            graph: affinities W, see `clustering.graphs.row_graph.given_graph`; built from X if None.

        Raises:
            InputError: a parameter, X, the groups, the target or the graph is invalid.
        """
        warn_if_groups_are_y(y, sensitive_features)
        return self._fit(X, y, sensitive_features, graph=graph)

    def _begin(self, X: Any, features: Any, graph: Any = None) -> "_Graph":
        values, groups = fit_input(self, X, features)
        watch, rows = Stopwatch(), Rows.of(values)
        W, _ = graph_and_variance(graph, rows, self.n_neighbors, "average", 1.0)
        building, affinities = watch.lap(), scipy_graph(W)
        problem = CutProblem(groups, int(self.n_clusters), affinities)
        labels = [*self._first_labels(rows), *self._spectral_labels(affinities, groups, values)]

        def objective(labels: NDArray[np.int64]) -> float:
            return graph_objectives(labels, affinities).normalised_cut

        starts = [{0.0: first} for first in labels]
        return _Graph(problem, problem, starts, objective, building, watch.lap(), graph=W)

    def _first_labels(self, rows: Rows) -> NDArray[np.int64]:
        """(T, N) labels from which the starts begin."""
        if isinstance(self.init, str) and self.init in ("spectral", "k-means++"):
            seeds = first_seeds("k-means++", rows, self.n_clusters, self.n_init, self.random_state)
            nearest: NDArray[np.int64] = rows.squared_distances(seeds).min(dim=1).indices.numpy()
            return nearest
        labels = np.asarray(self.init)
        integers = np.issubdtype(labels.dtype, np.integer)
        if labels.shape != (len(rows.values),) or not integers or labels.min() < 0 or labels.max() >= self.n_clusters:
            raise InputError(f"init must be spectral, k-means++ or {len(rows.values)} labels 0..{self.n_clusters - 1}")
        return labels.astype(np.int64)[None]

    def _spectral_labels(self, affinities: csr_array, groups: Groups, values: Tensor) -> list[NDArray[np.int64]]:
        """Labels of fair spectral clustering, unless `init` excludes them or the graph has too few linked points."""
        K = self.n_clusters
        applies = isinstance(self.init, str) and self.init == "spectral"
        if not applies or not len(linked_points(affinities)) >= K > 1:
            return []
        generator = stream(seed_of(self.random_state), "fair start")
        embedding, _ = fair_embedding(affinities, groups, K, generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # too few distinct rows
            return [embedded_labels(embedding, affinities, values, K, self.n_init, generator)]

    def _keep(self, end: Stage, data: "_Graph", seconds: Seconds) -> None:  # type: ignore[override]
        labels, _ = numbered(self, end.labels)
        keep_fairness(self, labels, data.groups)
        self.objective_, self.fairness_weight_ = data.objective(end.labels), end.weight
        self.history_, self.n_iter_, self.converged_ = end.history, max(1, len(end.history)), end.converged
        self.graph_, self.seconds_ = data.graph, seconds
        self.n_isolated_ = int((data.graph.pointers.diff() == 0).sum())
        if self.n_isolated_:
            warnings.warn(
                f"{self.n_isolated_} points have no arcs and are not connected to the graph; pass a graph with "
                "more arcs",
                stacklevel=5,
            )


@dataclass(frozen=True, eq=False)
class _Graph(Data):
    """Data of a fit with its `graph`."""

    _: KW_ONLY
    graph: SparseGraph
