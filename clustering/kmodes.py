"""Gaussian K-modes: clusters around modes of a kernel density."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.estimator_input import Device, checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import NARROWEST, AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.row_graph import graph_and_variance
from clustering.nearest_prototype import NearestPrototype
from clustering.numbering import numbered
from clustering.optimiser.alternation import Alternation, Outcome, alternate
from clustering.optimiser.prototypes import Modes
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds, prototypes_about
from clustering.starts import best_start, cluster_sizes, empty_clusters

_COLD = 1e-4
"""Temperature at which assignments are hard and R equals the objective of K-modes to four digits."""


@dataclass(eq=False, repr=False)
class GaussianKModes(NearestPrototype, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """K-modes of Gaussian kernels (Carreira-Perpinan and Wang 2013; thesis eq. 1.7), `SLK` without its graph.

    Maximises sum_p g(x_p, m_{l_p}), g(x, m) = exp(-||x - m||^2 / (2 sigma^2)), by alternating assignments of points to
    the nearest mode and mean-shift of every mode over its members. It is not the k-modes of categorical data. A large
    sigma gives K-means; with a small sigma, modes are single points.

    Parameters
    ----------
    n_clusters : number of clusters K.
    bandwidth : sigma >= 1e-15. "estimate" sets sigma^2 to the mean squared distance to the `n_neighbors` nearest other
        points (thesis section 2.4); "published" sets it to k / (k + 1) of that.
    n_neighbors, symmetry : parameters of the graph from which sigma is estimated.
    init : "k-means++", "random" (distinct rows of X), or (K, D) initial modes, in which case there is a single start.
    n_init : number of starts, of which the one with the lowest objective is kept; "auto" is 8, as for `KMeans`.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    max_iter, tol : maximum number of updates of the modes; relative change of the objective below which they stop.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, index of the nearest mode.
    cluster_centers_ : (K, D) modes, in the space of the normalised rows if `normalize` is set.
    objective_ : -sum_p g(x_p, m_{l_p}). start_objectives_ : (n_init,) objective of each start.
    n_iter_ : number of updates of the modes. converged_ : whether the fit stopped before
        max_iter.
    n_reseeded_ : number of times an empty cluster was reseeded. n_empty_ : number of empty clusters in the result.
    bandwidth_ : sigma. graph_ : the graph, if one was given or needed.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : as
        in scikit-learn.
    """

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    bandwidth: Literal["estimate", "published"] | Annotated[float, AtLeast(NARROWEST)] = "estimate"
    n_neighbors: Annotated[int, AtLeast(1)] = 5
    symmetry: Symmetry = "average"
    init: str | ArrayLike = "k-means++"
    n_init: Annotated[int, AtLeast(1)] | Literal["auto"] = 8
    normalize: Literal["l2"] | None = None
    max_iter: Annotated[int, AtLeast(1)] = 100
    tol: Annotated[float, AtLeast(0)] = 1e-5
    device: Device = "cpu"
    random_state: Any = None

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> "GaussianKModes":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, as in scikit-learn.

        Args:
            graph: graph from which sigma is estimated, see `clustering.graphs.row_graph.given_graph`; built if None.

        Raises:
            InputError: a parameter, X or the graph is invalid, or there are fewer distinct points than clusters.
        """
        validate_signature(self)
        rows = Rows.of(checked_rows(self, X, reset=True, normalize=self.normalize, device=self.device))
        watch = Stopwatch()
        if graph is not None or isinstance(self.bandwidth, str):
            self.graph_, variance = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, self.bandwidth)
        else:
            variance = float(self.bandwidth) ** 2
        self.bandwidth_ = variance**0.5
        graph_seconds = watch.lap()
        seeds = first_seeds(self.init, rows, self.n_clusters, self.n_init, self.random_state)
        seeding_seconds = watch.lap()
        rule = Modes(rows, variance)
        result = alternate(
            rule,
            prototypes_about(seeds, rows, rule),
            temperature=_COLD,
            members="hard",
            empty="reseed",
            max_iterations=self.max_iter,
            tolerance=self.tol,
        )
        self._keep(result, rows)
        self.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())
        return self

    def _keep(self, result: Alternation, rows: Rows) -> None:
        """Store the best start in the fitted attributes."""
        nearest = rows.squared_distances(result.coefficients).min(dim=1)
        densities = nearest.values.mul_(-0.5 / self.bandwidth_**2).exp_()
        objectives = -densities.sum(dim=1, dtype=torch.float64)
        best = best_start(objectives, cluster_sizes(nearest.indices, self.n_clusters), densities.dtype)
        self.labels_, order = numbered(self, nearest.indices[best].cpu().numpy())
        modes = result.coefficients[best][order]
        self.cluster_centers_ = rows.absolute(modes).cpu().numpy()
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives.cpu().numpy()
        self.n_iter_, self.n_reseeded_ = int(result.iterations[best]), int(result.reseeded[best])
        self.converged_ = bool(result.outcome[best] == Outcome.CONVERGED)
        self.n_empty_ = empty_clusters(nearest.indices[best], self.n_clusters)
