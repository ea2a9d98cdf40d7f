"""Gaussian K-modes: as many density modes as clusters, points at the nearest."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.blocks import is_dask_array
from clustering.estimator_input import Device, checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import NARROWEST, AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.row_graph import graph_and_variance
from clustering.graphs.sparse_rows import nearest_centres, rows_of
from clustering.numbering import numbered
from clustering.optimiser.alternation import Alternation, Outcome, alternate
from clustering.optimiser.centres import Modes, Rows
from clustering.seeding import first_seeds, prototypes_about
from clustering.starts import best_start, cluster_sizes, empty_clusters

_COLD = 1e-4
"""Temperature at which assignments are hard and R is the objective of K-modes to the fourth digit."""


class GaussianKModes(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """K-modes of Gaussian kernels (Carreira-Perpinan and Wang 2013; thesis eq. 1.7), `SLK` without its graph.

    Raises sum_p g(x_p, m_{l_p}), g(x, m) = exp(-||x - m||^2 / (2 sigma^2)), in turns: every point in the cluster of the
    nearest mode, every mode by mean-shift over its members. Not the k-modes of categorical data. A large sigma gives
    K-means, a small one modes that are single points.

    Parameters
    ----------
    n_clusters : K.
    bandwidth : sigma >= 1e-15; "estimate": sigma^2 is the mean squared distance to the `n_neighbors` nearest others
        (thesis section 2.4); "published": k / (k + 1) of that.
    bandwidth_path : factors of sigma, above 1 and falling, that are gone through first, each from the modes where the
        one before ended (the homotopy of the original method).
    n_neighbors, symmetry : of the graph that sigma is estimated from.
    init : "k-means++", or (K, D) first modes, then one start only.
    n_init : starts, of which the lowest objective is the result.
    normalize : "l2": rows are divided by their length, zero rows stay. None: as they are.
    max_iter, tol : updates of the modes at most; relative change of the objective at which they end.
    device : "cpu", "cuda", or "auto", which is cuda where there is one.
    random_state : seed of the starts.

    Attributes
    ----------
    labels_ : (N,) int, the nearest mode.
    cluster_centers_ : (K, D) modes, of normalised rows if `normalize`.
    objective_ : -sum_p g(x_p, m_{l_p}). start_objectives_ : (n_init,) that of every start.
    n_iter_ : updates of the modes, those of the path included. converged_ : whether it ended before max_iter.
    n_reseeded_ : empty clusters that began again. n_empty_ : clusters without points in the result.
    bandwidth_ : sigma. graph_ : the graph, where one was given or needed.
    seconds_ : `clustering.foundation.timing.Seconds` of the fit. n_features_in_, feature_names_in_ : of scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        bandwidth: Literal["estimate", "published"] | Annotated[float, AtLeast(NARROWEST)] = "estimate",
        bandwidth_path: Sequence[float] | None = None,
        n_neighbors: Annotated[int, AtLeast(1)] = 5,
        symmetry: Symmetry = "average",
        init: str | ArrayLike = "k-means++",
        n_init: Annotated[int, AtLeast(1)] = 8,
        normalize: Literal["l2"] | None = None,
        max_iter: Annotated[int, AtLeast(1)] = 100,
        tol: Annotated[float, AtLeast(0)] = 1e-5,
        device: Device = "cpu",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.bandwidth = bandwidth
        self.bandwidth_path = bandwidth_path
        self.n_neighbors = n_neighbors
        self.symmetry = symmetry
        self.init = init
        self.n_init = n_init
        self.normalize = normalize
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> "GaussianKModes":
        """Cluster the rows of X, (N, D) finite, dense or scipy sparse; `y` is ignored, as in scikit-learn. Of a dask
        array labels_ is one, see docs/how_to/many-machines.md.

        Args:
            graph: from which sigma is estimated, see `clustering.graphs.row_graph.given_graph`; built where None.

        Raises:
            InputError: a parameter, X or graph that cannot be; fewer distinct points than clusters.
        """
        validate_signature(self)
        path = tuple(float(factor) for factor in (self.bandwidth_path if self.bandwidth_path is not None else ()))
        if not all(high > low > 0 for high, low in pairwise((*path, 1.0))):
            raise InputError(f"GaussianKModes: bandwidth_path must fall and be above 1, not {self.bandwidth_path!r}")
        if is_dask_array(X):
            from clustering.blocks.kmodes import fit_blocks

            fit_blocks(self, X, graph, path, _COLD)
            return self
        rows = rows_of(
            checked_rows(self, X, reset=True, normalize=self.normalize, device=self.device, accept_sparse=True)
        )
        watch = Stopwatch()
        if graph is not None or isinstance(self.bandwidth, str):
            self.graph_, variance = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, self.bandwidth)
        else:
            variance = float(self.bandwidth) ** 2
        self.bandwidth_ = variance**0.5
        graph_seconds = watch.lap()
        seeds = first_seeds(self.init, rows, self.n_clusters, self.n_init, self.random_state)
        seeding_seconds = watch.lap()
        factors = (*path, 1.0)
        modes = prototypes_about(seeds, rows, Modes(rows, variance * factors[0] ** 2))
        iterations = reseeded = torch.zeros(len(seeds), dtype=torch.int64, device=seeds.device)
        for factor in factors:
            found = self._found(Modes(rows, variance * factor**2), modes)
            modes = found.coefficients
            iterations, reseeded = iterations + found.iterations, reseeded + found.reseeded
        self._keep(found, iterations, reseeded, rows)
        self.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())
        return self

    def _found(self, rule: Modes, modes: Tensor) -> Alternation:
        return alternate(
            rule,
            modes,
            temperature=_COLD,
            members="hard",
            empty="reseed",
            max_iterations=self.max_iter,
            tolerance=self.tol,
        )

    def _keep(self, found: Alternation, iterations: Tensor, reseeded: Tensor, rows: Rows) -> None:
        """Take the best start."""
        nearest = rows.squared_distances(found.coefficients).min(dim=1)
        densities = nearest.values.mul_(-0.5 / self.bandwidth_**2).exp_()
        objectives = -densities.sum(dim=1, dtype=torch.float64)
        best = best_start(objectives, cluster_sizes(nearest.indices, self.n_clusters), densities.dtype)
        self.labels_, order = numbered(self, nearest.indices[best].cpu().numpy())
        modes = found.coefficients[best][order]
        self.cluster_centers_ = (modes if rows.origin is None else modes + rows.origin).cpu().numpy()
        self.objective_, self.start_objectives_ = float(objectives[best]), objectives.cpu().numpy()
        self.n_iter_, self.n_reseeded_ = int(iterations[best]), int(reseeded[best])
        self.converged_ = bool(found.outcome[best] == Outcome.CONVERGED)
        self.n_empty_ = empty_clusters(nearest.indices[best], self.n_clusters)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) the nearest mode of each of the rows of X (n, D)."""
        check_is_fitted(self)
        values = checked_rows(self, X, reset=False, normalize=self.normalize, device=self.device, accept_sparse=True)
        return (
            nearest_centres(values, torch.from_numpy(self.cluster_centers_).to(values.device, values.dtype))
            .cpu()
            .numpy()
        )
