"""SLK as in the public code of its authors: initial prototypes, stopping rules, and the end when a cluster becomes
empty."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from torch import Tensor

from clustering.energy import cut
from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import NARROWEST, AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.row_graph import graph_and_variance
from clustering.graphs.sparse_graph import SparseGraph
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds
from clustering.starts import entropy_of, indicators, warn_of_uniform

UPDATES, SWEEPS = 100, 1000
"""Maximum number of updates of the prototypes, and of updates of S in between."""

_OUTER, _INNER = 1e-5, 1e-6
"""Relative changes at which each of these stops, from the third step on."""


@dataclass(eq=False, repr=False)
class PublishedSLK(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """SLK (NeurIPS 2018) as in the authors' public code, to reproduce their results. For other purposes use `SLK`.

    There is a single start. Prototypes are computed from the most probable clusters, the first ones from the points
    nearest to the seeds. Assignments S are iterates of softmax(-a + lambda W S), with a the cost of the prototypes and
    lambda = 2 `weight`, starting from softmax(-a) after each update. The inner loop stops by <S, log S> + <S, a> -
    lambda <S, W S>, although its update minimises this with half of lambda; the outer loop stops by <S, a> - lambda
    <S, W S>. No step is guarded. An update that empties a cluster is undone and ends the fit. Computations are in
    double precision, since rounding in single precision exceeds the stopping tolerances.

    The form of "mean_shift" and "byproduct" is that of the release of 2018, whose labels they give one by one, and of
    "mean" for 5,000 points or more; for fewer points the release takes another function for means.

    Parameters
    ----------
    n_clusters : number of clusters K.
    prototypes : "mean_shift" (SLK-MS), "byproduct" (SLK-BO; the first modes are the densest members), "mean"
        (SLK-Means of the journal).
    weight : lambda >= 0 of E, as of `SLK`; half of the lambda in the papers' update.
    n_neighbors : number of neighbours k in the graph, not counting the point itself; the public code counts it among
        its 5.
    symmetry : how arcs become W: "average" (2018 release), "directed" (2020 release), "union" or "mutual".
    bandwidth : sigma >= 1e-15. "published" sets sigma^2 to k / (k + 1) of the mean squared distance to the neighbours;
        "estimate" sets it to that distance (thesis section 2.4).
    normalize : "l2" divides each row by its Euclidean norm; None uses the rows as given.
    init : "k-means++", "random" (distinct rows of X), or (K, D) initial prototypes.
    random_state : seed or generator of the start.

    Attributes
    ----------
    labels_ : (N,) int, argmax of assignments_; ties go to the lowest index.
    assignments_ : (N, K) S, rows sum to one.
    cluster_centers_ : (K, D) prototypes, in the space of the normalised rows if `normalize` is set.
    mode_indices_ : (K,) rows of X that are the prototypes ("byproduct" only).
    objective_ : E of the labels, as of `SLK`.
    relaxed_objective_ : R = <S, a> + <S, log S> - weight <S, W S>. objective_trace_ : (updates,) R.
    mode_movements_ : (updates, K) Euclidean distance of each prototype to its successor.
    n_iter_ : number of updates of the prototypes. converged_ : whether a stopping rule ended them; False if a cluster
        became empty.
    bandwidth_ : sigma. graph_ : W. seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    revision: ClassVar[int] = 2

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    prototypes: Literal["mean", "mean_shift", "byproduct"] = "mean_shift"
    weight: Annotated[float, AtLeast(0)] = 0.65
    n_neighbors: Annotated[int, AtLeast(1)] = 4
    symmetry: Symmetry = "average"
    bandwidth: Literal["estimate", "published"] | Annotated[float, AtLeast(NARROWEST)] = "published"
    normalize: Literal["l2"] | None = "l2"
    init: str | ArrayLike = "k-means++"
    random_state: Any = None

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> "PublishedSLK":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, as in scikit-learn.

        Args:
            graph: affinities W, see `clustering.graphs.row_graph.given_graph`; built from X if None.

        Raises:
            InputError: a parameter, X or the graph is invalid; there are fewer distinct points than clusters; or no
                point is nearest to some row of `init`.
        """
        validate_signature(self)
        watch = Stopwatch()
        rows = Rows(checked_rows(self, X, reset=True, normalize=self.normalize))
        near, variance = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, self.bandwidth)
        graph_seconds = watch.lap()
        [seeds] = first_seeds(self.init, rows, self.n_clusters, 1, self.random_state)
        seeding_seconds = watch.lap()
        exact = Rows(rows.values.double())
        problem = _Problem(self.prototypes, exact, near.to(torch.float64), 2 * float(self.weight), variance)
        result = _alternate(problem, seeds.double())
        labels = result.assignments.argmax(dim=0)
        self.graph_, self.bandwidth_ = near, math.sqrt(variance)
        unary = problem.unary(result.prototypes).gather(0, labels[None]).sum()
        self.objective_ = float(unary + self.weight * cut(labels[None], problem.graph)[0])
        self.objective_trace_, self.relaxed_objective_ = result.trace.numpy(), float(result.trace[-1])
        self.n_iter_, self.converged_ = result.updates, result.converged
        self.labels_, order = numbered(self, labels.numpy())
        prototypes = result.prototypes[order].to(rows.values.dtype)
        self.cluster_centers_ = prototypes.numpy()
        if self.prototypes == "byproduct":
            self.mode_indices_ = rows.places(prototypes).numpy()
        self.mode_movements_ = result.movements[:, order].numpy()
        assignments = result.assignments.mT[:, order].to(rows.values.dtype)
        self.assignments_ = assignments.contiguous().numpy()
        self.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())
        entropy = entropy_of(assignments) / len(labels)
        warn_of_uniform(entropy, self.n_clusters, stacklevel=4, remedy="SLK, whose temperature follows the graph")
        return self


class _Problem(NamedTuple):
    """The data in double precision."""

    kind: str
    rows: Rows
    graph: SparseGraph
    slope: float  # lambda
    variance: float

    def unary(self, prototypes: Tensor) -> Tensor:
        """(K, N) unary costs a: squared distances to means, or minus the kernel at modes."""
        squared = self.rows.squared_distances(prototypes[None])[0]
        return squared if self.kind == "mean" else -torch.exp(squared / (-2 * self.variance))

    def neighbours(self, S: Tensor) -> Tensor:
        """(K, N) W S."""
        return (self.graph @ S.mT[None])[0].mT


class _Result(NamedTuple):
    """Result of the fit; `assignments` is (K, N)."""

    assignments: Tensor
    prototypes: Tensor
    updates: int
    converged: bool
    trace: Tensor
    movements: Tensor


def _alternate(problem: _Problem, seeds: Tensor) -> _Result:
    clusters = len(seeds)
    S = indicators(problem.rows.squared_distances(seeds[None])[0].argmin(dim=0)[None], clusters, seeds.dtype)[0]
    empty = (S.sum(dim=1) == 0).nonzero()[:, 0].tolist()
    if empty:
        raise InputError(f"PublishedSLK: no point is nearest to row {empty[0]} of init; pass {clusters} rows of X")
    M, energy, converged = seeds, torch.inf, False
    trace, movements = [], []
    for update in range(UPDATES):
        new = _prototypes(problem, M, S, first=update == 0)
        a = problem.unary(new)
        assignments, near = _bound_steps(problem, a)
        if (torch.bincount(assignments.argmax(dim=0), minlength=clusters) == 0).any():
            break
        movements.append((new - M).norm(dim=1))
        M, S = new, assignments
        unary, pairs = (S * a).sum(), problem.slope * (S * near).sum()
        trace.append(unary + torch.special.xlogy(S, S).sum() - pairs / 2)
        last, energy = energy, float(unary - pairs)
        converged = update > 1 and abs(energy - last) <= _OUTER * abs(last)
        if converged:
            break
    if not trace:
        S_a, S_W_S = (S * problem.unary(M)).sum(), (S * problem.neighbours(S)).sum()
        trace.append(S_a - problem.slope / 2 * S_W_S)
        movements.append(torch.zeros_like(M[:, 0]))
    return _Result(S, M, update + 1, converged, torch.stack(trace), torch.stack(movements))


def _bound_steps(problem: _Problem, a: Tensor) -> tuple[Tensor, Tensor]:
    """S (K, N) for unary costs a, and W S."""
    S = torch.softmax(-a, dim=0)
    near, energy = problem.neighbours(S), torch.inf
    for sweep in range(SWEEPS):
        S = torch.softmax(near.mul_(problem.slope).sub_(a), dim=0)
        near = problem.neighbours(S)
        entropy = (S * S.clamp_min(1e-20).log()).sum()
        last, energy = energy, float(entropy + (S * a).sum() - problem.slope * (S * near).sum())
        if sweep > 1 and abs(energy - last) <= _INNER * abs(last):
            break
    return S, near


def _prototypes(problem: _Problem, M: Tensor, S: Tensor, *, first: bool) -> Tensor:
    """(K, D) prototypes of the most probable clusters; means, after the first ones, are weighted by the assignments."""
    members = indicators(S.argmax(dim=0)[None], len(M), S.dtype)
    if problem.kind == "mean":
        return problem.rows.means(members if first else S[None])[0]
    if problem.kind == "mean_shift":
        return problem.rows.mean_shift(M[None], members, problem.variance)[0]
    if first:
        return problem.rows.at(problem.rows.central(members > 0, problem.variance))[0]
    return problem.rows.at(S.argmax(dim=1))
