"""Laplacian K-modes by its convex relaxation (Wang and Carreira-Perpinan 2014), the baseline of
`clustering.slk.estimator`."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from torch import Tensor

from clustering.energy import discrete_energy
from clustering.estimator_input import Device, checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import NARROWEST, AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.neighbours import nearest_to
from clustering.graphs.row_graph import graph_and_variance, neighbours_used
from clustering.graphs.smoothing import Smoothness, smoothed
from clustering.nearest_prototype import PrototypeDistances
from clustering.numbering import numbered
from clustering.optimiser.prototypes import Modes
from clustering.optimiser.rows import Rows, nearest_centres
from clustering.optimiser.simplex import project
from clustering.seeding import first_seeds
from clustering.starts import best_start, cluster_sizes, empty_clusters, indicators


@dataclass(eq=False, repr=False)
class LaplacianKModes(PrototypeDistances, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Laplacian K-modes (LK): density modes as prototypes, and assignments that are smooth on the neighbour graph.

    Minimises, over S with rows in the simplex and modes M in R^D,

        weight tr(S^T (D - W) S) - sum_pk s_pk g(x_p, m_k),        g(x, m) = exp(-||x - m||^2 / (2 sigma^2)),

    by alternation. Modes move by mean-shift weighted by S. For S the problem is convex and is solved by accelerated
    projected gradient steps, with a restart of the acceleration whenever the objective would rise. On one-hot
    assignments the objective is E of `clustering.SLK` with the same `weight`. At weight 0 the method is K-modes.

    A fitted model, and its pickle, contains the rows of X and the graph, by which `predict` assigns new points, unless
    it is fitted with `keep_graph=False`.

    Parameters
    ----------
    n_clusters : number of clusters K.
    weight : lambda >= 0, applied to each stored arc, hence twice to each pair of neighbours.
    n_neighbors : number of neighbours k in the graph, not counting the point itself; at most N / K - 1, but one at
        least.
    symmetry : how the directed kNN graph is made symmetric: "average" (W + W^T) / 2, "union" or "mutual".
    bandwidth : sigma >= 1e-15. "estimate" sets sigma^2 to the mean squared distance to the neighbours in the graph
        (thesis section 2.4); "published" sets it to k / (k + 1) of that.
    init : "k-means++", "random" (distinct rows of X), or (K, D) seeds, in which case there is a single start. S starts
        one-hot at the nearest seed.
    n_init : number of starts, of which the one with the lowest E is kept; "auto" is 8, as for `KMeans`.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    max_iter, tol : maximum number of updates of the modes; movement of the modes, relative to their size, below which
        the updates stop.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, argmax of assignments_; ties go to the lowest index.
    assignments_ : (N, K) S, rows sum to one.
    cluster_centers_ : (K, D) modes, in the space of the normalised rows if `normalize` is set.
    objective_ : E of the labels. relaxed_objective_ : the objective above at S.
    objective_trace_ : the relaxed objective after each update of S. start_objectives_ : (n_init,) E of each start.
    n_iter_ : number of updates of the modes. n_sweeps_ : total number of gradient steps. converged_ : whether the fit
        stopped before max_iter.
    n_empty_ : number of empty clusters in the result.
    bandwidth_ : sigma. graph_ : W. seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    revision: ClassVar[int] = 2

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    weight: Annotated[float, AtLeast(0)] = 0.65
    n_neighbors: Annotated[int, AtLeast(1)] = 5
    symmetry: Literal["average", "union", "mutual"] = "average"
    bandwidth: Literal["estimate", "published"] | Annotated[float, AtLeast(NARROWEST)] = "estimate"
    init: str | ArrayLike = "k-means++"
    n_init: Annotated[int, AtLeast(1)] | Literal["auto"] = 8
    normalize: Literal["l2"] | None = None
    max_iter: Annotated[int, AtLeast(1)] = 100
    tol: Annotated[float, AtLeast(0)] = 1e-3
    device: Device = "cpu"
    random_state: Any = None

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None, keep_graph: bool = True) -> "LaplacianKModes":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, as in scikit-learn.

        Args:
            graph: affinities W, see `clustering.graphs.row_graph.given_graph`; built from X if None.
            keep_graph: False leaves the rows of X and the graph out of the fitted model, which then assigns new points
                by prototypes only.

        Raises:
            InputError: a parameter, X or the graph is invalid, or there are fewer distinct points than clusters.
        """
        validate_signature(self)
        rows = Rows.of(checked_rows(self, X, reset=True, normalize=self.normalize, device=self.device))
        watch, near = Stopwatch(), neighbours_used(self.n_neighbors, len(rows.values), self.n_clusters)
        self.graph_, variance = graph_and_variance(graph, rows, near, self.symmetry, self.bandwidth)
        if self.weight > 0 and (self.graph_.weights < 0).any():
            raise InputError("the graph has negative weights, for which the problem is not convex; remove these arcs")
        self.bandwidth_ = variance**0.5
        graph_seconds = watch.lap()
        seeds = first_seeds(self.init, rows, self.n_clusters, self.n_init, self.random_state)
        nearest = rows.squared_distances(seeds).min(dim=1).indices
        seeding_seconds = watch.lap()
        rule, smoothness = Modes(rows, variance), Smoothness(self.graph_, float(self.weight))
        first = indicators(nearest, self.n_clusters, seeds.dtype)
        ends = [self._alternate(rule, smoothness, seeds[i : i + 1], first[i : i + 1]) for i in range(len(seeds))]
        self._keep(ends, rule)
        self._fitted = rows
        self.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())
        if not keep_graph:
            del self.graph_
            self._fitted = rows.without_points()
        return self

    def predict(self, X: ArrayLike, *, by: Literal["graph", "prototypes"] = "graph") -> NDArray[np.int64]:
        """(n,) cluster of each new point.

        Args:
            X: (n, D).
            by: "graph" minimises the objective over the assignment of the new point with all else fixed, where arcs of
                weight 1 link the point to its n_neighbors nearest rows of the fitted X. "prototypes" takes the nearest
                mode.
        """
        new, fitted = self._new_rows(X), self._rows_for(by)
        centres = torch.from_numpy(self.cluster_centers_).to(new.device, new.dtype)
        if by == "prototypes" or self.weight == 0:
            return nearest_centres(new, centres).cpu().numpy()
        rows = Rows(fitted.relative(new))
        used = neighbours_used(self.n_neighbors, len(fitted.values), self.n_clusters)
        near = nearest_to(fitted.values, rows.values, used)
        # The quadratic term counts weight sum_q ||s - s_q||^2 for both directions (Wang and Carreira-Perpinan 2014,
        # section 4).
        mean = torch.from_numpy(self.assignments_).to(centres)[near].mean(dim=1).T
        cost = Modes(rows, self.bandwidth_**2).cost(fitted.relative(centres)[None])
        assignments = project(mean - cost / (2 * self.weight * near.shape[1]))
        return assignments[0].max(dim=0).indices.cpu().numpy()

    def _alternate(self, rule: Modes[Rows], smoothness: Smoothness, modes: Tensor, assignments: Tensor) -> "_End":
        """Alternate between modes (1, K, D) and assignments (1, K, N) of one start."""
        trace, sweeps, moved = [], 0, True
        for _ in range(self.max_iter):
            empty = assignments.amax(dim=2)[:, :, None] == 0
            # Any finite weights will do where a mode has none.
            new = rule.rows.mean_shift(modes, torch.where(empty, 1.0, assignments), rule.variance)
            new = torch.where(empty, modes, new)
            moved = bool((new - modes).norm() > self.tol * new.norm())
            modes = new
            step = smoothed(rule.cost(new), smoothness, assignments)
            assignments, sweeps = step.assignments, sweeps + step.iterations
            trace.append(step.objective)
            if not moved:
                break
        return _End(modes[0], assignments[0], trace, sweeps, not moved)

    def _keep(self, ends: Sequence["_End"], rule: Modes[Rows]) -> None:
        """Store the best start in the fitted attributes."""
        labels = torch.stack([end.assignments.max(dim=0).indices for end in ends])
        modes = torch.stack([end.modes for end in ends])
        energies = discrete_energy(rule.cost(modes), labels, self.graph_, float(self.weight))
        best = best_start(energies, cluster_sizes(labels, self.n_clusters), modes.dtype)
        end = ends[best]
        self.labels_, order = numbered(self, labels[best].cpu().numpy())
        self.assignments_ = end.assignments[order].T.contiguous().cpu().numpy()
        self.cluster_centers_ = rule.rows.absolute(end.modes[order]).cpu().numpy()
        self.objective_, self.start_objectives_ = float(energies[best]), energies.cpu().numpy()
        self.objective_trace_, self.relaxed_objective_ = np.array(end.trace), end.trace[-1]
        self.n_iter_, self.n_sweeps_, self.converged_ = len(end.trace), end.sweeps, end.converged
        self.n_empty_ = empty_clusters(labels[best], self.n_clusters)


class _End(NamedTuple):
    """Where a start ended."""

    modes: Tensor  # (K, D)
    assignments: Tensor  # (K, N)
    trace: list[float]
    sweeps: int
    converged: bool
