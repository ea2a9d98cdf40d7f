"""Scalable Laplacian K-modes (Ziko, Granger and Ben Ayed, NeurIPS 2018) and its variants, as a scikit-learn
estimator."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from torch import Tensor

from clustering.estimator_input import Device, checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import NARROWEST, Above, AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.neighbours import NeighbourGraph, nearest_to
from clustering.graphs.row_graph import graph_and_variance, neighbours_used
from clustering.graphs.sparse_graph import SparseGraph
from clustering.nearest_prototype import PrototypeDistances
from clustering.number_of_clusters import with_found_number
from clustering.numbering import numbered
from clustering.optimiser.alternation import Alternation, Outcome
from clustering.optimiser.rows import Rows
from clustering.slk.fit import Problem, blurred, rule_of, temperatures_of
from clustering.slk.published import PublishedSLK
from clustering.slk.race import race, racing, seeds_of
from clustering.starts import Ranking, Select, entropy_of, warn_of_empty, warn_of_uniform

_PRESETS = {"slk2018-ms": "mean_shift", "slk2018-bo": "byproduct", "journal-means": "mean"}
"""Prototypes of the published runs."""

AssignBy = Literal["graph", "prototypes"]
"""What assigns new points: their neighbours and the prototypes, or the prototypes only."""


@dataclass(eq=False, repr=False)
class SLK(PrototypeDistances, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Prototype-based clustering in which neighbours are drawn to the same cluster.

    Minimises, over labels one-hot in S and prototypes M (thesis eq. 2.4),

        E(S, M) = F(S, M) + weight sum_pq w_pq [l_p != l_q],        W the symmetric kNN graph of the points,

    through its relaxation over row-stochastic S, R(S, M) = F(S, M) + T <S, log S> - weight <S, W S>. It alternates
    between bound steps for S, each of which takes a sparse product and a softmax (`clustering.optimiser.descent`), and
    updates of the prototypes. The steps for S never raise R. With a warm start, R does not rise
    from one update of the prototypes to the next either, unless an empty cluster is reseeded. The choice of the start
    matters more than the weight; docs/methods/clustering.md has the measurements behind the defaults.

    Memory: X, the graph, and about a dozen N x K arrays, for each of the `n_init` starts if they do not race. A fitted
    model, and its pickle, contains the rows of X and the graph, by which `predict` assigns new points, unless it is
    fitted with `keep_graph=False`.

    Parameters
    ----------
    n_clusters : number of clusters K; "auto" finds it (`clustering.number_of_clusters`), and warns if no number stands
        out.
    prototypes : F and its prototypes. "mean_shift": F = -sum_pk s_pk g(x_p, m_k), modes by mean-shift of the kernel
        g(x, m) = exp(-||x - m||^2 / (2 sigma^2)) (SLK-MS). "byproduct": the same F, modes are the members with the best
        assignment, which are rows of X (SLK-BO), accepted only if the density of their cluster is not lower there.
        "mean": F = sum_pk s_pk ||x_p - m_k||^2 / (4 sigma^2) (SLK-Means); because of sigma the balance with the graph
        term does not depend on the scale of X.
    weight : lambda >= 0 of E, applied to each stored arc, hence twice to each pair of neighbours; half of the lambda in
        the papers' update. A large weight can merge clusters.
    n_neighbors : number of neighbours k in the graph, not counting the point itself; at most N / K - 1, but one at
        least.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged, as in the papers; None uses
        the rows as given.
    init : "k-means++", "random" (distinct rows of X), or (K, D) initial prototypes, in which case there is a single
        start.
    n_init : number of starts, of which one is kept, see `select`; "auto" is 48. Starts race (`clustering.slk.race`),
        which makes many of them cheap: all get three updates, and a quarter of them continue to the end, by a single
        mean-shift step per update unless prototypes are means. For the best few, unless labels are known, two clusters
        are merged and another one is split while that is better. The winner continues from its last assignments, while
        a single start begins each update with the softmax of the costs. With more than 16,384 points the race uses a
        sample of 8,192 with a graph of its own, unless labels are known or the graph is passed as a matrix.
    random_state : seed or generator of the initialisations.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    bandwidth : sigma >= 1e-15. "estimate" sets sigma^2 to the mean squared distance to the neighbours in the graph
        (thesis section 2.4); "published" sets it to k / (k + 1) of that, as the public code does.
    select : criterion that selects a start. "energy": lowest E among the starts with the most clusters. "information":
        among the starts within 0.04 N of that, the lowest R - 2 N H, with H the entropy of the cluster shares in nats,
        which prefers even sizes among nearly equal starts.
    temperature : T, the weight of the entropy in R; 1 in the papers. "auto" uses 3 weight d / K with d the mean degree
        of the graph, but at most 1, and two thirds of that if the assignments remain blurred: at much higher
        temperatures neighbours cannot agree on one of K clusters, and assignments become almost uniform.

    Attributes
    ----------
    labels_ : (N,) int, argmax of assignments_; ties go to the lowest index.
    assignments_ : (N, K) S, rows sum to one; a larger weight gives more confident assignments.
    cluster_centers_ : (K, D) prototypes, in the space of the normalised rows if `normalize` is set.
    mode_indices_ : (K,) rows of X that are the prototypes, -1 for a prototype that is not a row ("byproduct" only).
    criterion_ : value of the criterion of `select`, lower is better; it can compare fits with several seeds, too.
    objective_ : E. relaxed_objective_ : R.
    objective_trace_ : (updates,) R after each update of S.
    mode_movements_ : (updates, K) Euclidean distance of each prototype to its successor, as in objective_trace_; the
        last entry is for the update that was not taken.
    n_iter_ : number of updates of the prototypes by the start that is kept, after the race.
    n_reseeded_ : number of times that the prototype of an empty cluster was moved to the point farthest from its own
        prototype, at most ten times.
    n_empty_ : number of empty clusters in the result.
    start_objectives_ : (n_init,) E of each start after its first three updates in the race, scaled by N / n on a sample
        of n points; without a race, E of the single start at its end. Their spread shows how much the start matters.
    converged_ : whether the fit stopped before 100 updates of the prototypes.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`.
    bandwidth_ : sigma. temperature_ : T. graph_ : W.
    n_clusters_ : K. contrasts_ : (M,) contrast of 1..M clusters, of which K has the highest; only with "auto".
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    revision: ClassVar[int] = 2

    n_clusters: Annotated[int, AtLeast(1)] | Literal["auto"] = 8
    _: KW_ONLY
    prototypes: Literal["mean_shift", "byproduct", "mean"] = "mean_shift"
    weight: Annotated[float, AtLeast(0)] = 0.65
    n_neighbors: Annotated[int, AtLeast(1)] = 5
    normalize: Literal["l2"] | None = None
    init: str | ArrayLike = "k-means++"
    n_init: Annotated[int, AtLeast(1)] | Literal["auto"] = 48
    random_state: Any = None
    device: Device = "cpu"
    bandwidth: Literal["estimate", "published"] | Annotated[float, AtLeast(NARROWEST)] = "estimate"
    select: Select = "information"
    temperature: Literal["auto"] | Annotated[float, Above(0)] = "auto"

    @staticmethod
    def preset(name: str, **changes: Any) -> PublishedSLK:
        """The settings of the public code, "slk2018-ms", "slk2018-bo" or "journal-means", with optional changes of
        parameters."""
        if name not in _PRESETS:
            raise InputError(f"unknown preset {name!r}; known: {', '.join(_PRESETS)}")
        return PublishedSLK(**{"prototypes": _PRESETS[name], **changes})

    @shared_if_large
    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        partial_labels: ArrayLike | None = None,
        graph: Any = None,
        keep_graph: bool = True,
    ) -> "SLK":
        """Cluster the rows of X.

        Args:
            X: (N, D) finite; float32 and float64 are kept, other numbers become float32.
            y: ignored, with a warning if `partial_labels` is None.
            partial_labels: (N,) int, known clusters 0..K-1, which points keep, and -1 for unlabelled points.
            graph: affinities W, see `clustering.graphs.row_graph.given_graph`; built from X if None.
            keep_graph: False leaves the rows of X and the graph out of the fitted model, which then assigns new points
                by prototypes only.

        Raises:
            InputError: a parameter, X, the labels or the graph is invalid; or there are fewer distinct
                points than clusters.
        """
        warn_if_labels_are_y(y, partial_labels)
        validate_signature(self)
        if self.n_clusters == "auto":
            found = {"partial_labels": partial_labels, "graph": graph, "keep_graph": keep_graph}
            return with_found_number(self, X, **found)
        self.n_clusters_ = int(self.n_clusters)
        values = checked_rows(self, X, reset=True, normalize=self.normalize, device=self.device)
        rows, clamp = Rows.of(values), known_clusters(partial_labels, values, self.n_clusters_)
        watch = Stopwatch()
        near = neighbours_used(self.n_neighbors, len(rows.values), self.n_clusters_)
        self.graph_, variance = graph_and_variance(graph, rows, near, "average", self.bandwidth)
        self.bandwidth_, self._fitted = variance**0.5, rows
        problem = Problem(self, rows, self.graph_, variance, clamp)
        graph_seconds = watch.lap()
        raced = self.n_init != 1 and isinstance(self.init, str)
        own_graph = graph is not None and not isinstance(graph, (NeighbourGraph, SparseGraph))
        if raced and not own_graph:
            sample, seeds = racing(problem)
        else:  # the graph may contain information that the rows of a sample do not
            sample, seeds = problem, seeds_of(self, rows, clamp)
        seeding_seconds = watch.lap()
        for temperature in temperatures_of(self, self.graph_):
            start, energies = seeds, None
            if raced:
                start, energies = race(replace(sample, temperature=temperature), seeds)
                energies *= len(rows.values) / len(sample.rows.values)
            whole = replace(problem, temperature=temperature)
            rule, trials = whole.solved(start, raced=raced)
            self.temperature_ = temperature
            self._keep(trials, whole.ranked(rule, trials).ranking, energies, partial_labels, values)
            if not blurred(self._entropy(), self.n_clusters_):
                break
        self.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())
        self._warn(self._entropy())
        if not keep_graph:
            del self.graph_
            self._fitted = rows.without_points()
        return self

    def predict(self, X: ArrayLike, *, by: AssignBy = "graph") -> NDArray[np.int64]:
        """(n,) cluster of each new point.

        Args:
            X: (n, D).
            by: "graph" takes one bound step for the new point, which arcs of weight 1 link to its n_neighbors nearest
                rows of the fitted X, with their S fixed. "prototypes" takes the cluster with the lowest unary cost.
        """
        cost, neighbours = self._unary(X, by)
        return self._logits(cost, neighbours).max(dim=0).indices.cpu().numpy()

    def predict_proba(self, X: ArrayLike, *, by: AssignBy = "graph") -> NDArray[Any]:
        """(n, K) assignments of new points, whose argmax is `predict`.

        They are softmax((-a + 2 weight sum_q s_q) / T) for the unary costs a, the assignments s_q of the n_neighbors
        nearest rows of the fitted X, and T = temperature_; with by="prototypes", softmax(-a / T). For fitted points
        they differ slightly from `assignments_`, whose graph is symmetric and has no arc from a point to itself.

        Args:
            X: (n, D).
            by: as in `predict`.
        """
        cost, neighbours = self._unary(X, by)
        logits = self._logits(cost, neighbours) / self.temperature_
        return logits.softmax(dim=0).T.contiguous().cpu().numpy()

    def _unary(self, X: ArrayLike, by: str) -> tuple[Tensor, Tensor | None]:
        """Unary costs (K, n) of new points and the indices (n, n_neighbors) of their nearest fitted rows.

        The indices are None if the graph is not used.
        """
        new, fitted = self._new_rows(X), self._rows_for(by)
        rows, centres = Rows(fitted.relative(new.to(fitted.values))), torch.from_numpy(self.cluster_centers_)
        rule = rule_of(self, rows, self.bandwidth_**2)
        cost = rule.cost(fitted.relative(centres.to(rows.values))[None])[0]
        if by == "prototypes" or self.weight == 0:
            return cost, None
        near = neighbours_used(self.n_neighbors, len(fitted.values), self.n_clusters_)
        return cost, nearest_to(fitted.values, rows.values, near)

    def _logits(self, cost: Tensor, neighbours: Tensor | None) -> Tensor:
        """(K, n) minus the costs of new points, plus the attraction by the assignments of their neighbours."""
        if neighbours is None:
            return -cost
        assignments = torch.from_numpy(self.assignments_).to(cost)
        return 2 * self.weight * assignments[neighbours].sum(dim=1).T - cost

    def _keep(
        self, trials: Alternation, ranking: Ranking, raced: Tensor | None, known: ArrayLike | None, values: Tensor
    ) -> None:
        """Store the best start, which may have won a race with these energies, in the fitted attributes."""
        fitted = self._fitted
        best = int(ranking.order(fitted.values.dtype)[0])
        self.start_objectives_ = (ranking.energies if raced is None else raced).cpu().numpy()
        self.objective_, self.relaxed_objective_ = float(ranking.energies[best]), float(trials.objective[best])
        self.criterion_ = float(ranking.criteria[best])
        trace = trials.trace[:, best]
        valid = ~torch.isnan(trace)
        self.objective_trace_ = trace[valid].cpu().numpy()
        self.n_iter_, self.n_reseeded_ = int(trials.iterations[best]), int(trials.reseeded[best])
        self.converged_ = bool(trials.outcome[best] == Outcome.CONVERGED)
        _, order = numbered(self, trials.labels[best].cpu().numpy(), known)
        assignments, centres = trials.assignments[best][:, order], trials.coefficients[best][order]
        assert trials.movements is not None
        self.mode_movements_ = trials.movements[valid, best].cpu().numpy()[:, order]
        labels = assignments.mT.max(dim=0).indices
        self.n_empty_ = int((torch.bincount(labels, minlength=self.n_clusters_) == 0).sum())
        self.labels_ = labels.cpu().numpy()
        self.assignments_ = assignments.contiguous().cpu().numpy()
        coordinates = fitted.absolute(centres)
        if self.prototypes == "byproduct":
            indices = fitted.places(centres)
            self.mode_indices_ = indices.cpu().numpy()
            coordinates = torch.where((indices >= 0)[:, None], values[indices], coordinates)
        self.cluster_centers_ = coordinates.cpu().numpy()

    def _entropy(self) -> float:
        """Mean entropy of the assignments, in nats."""
        return entropy_of(torch.from_numpy(self.assignments_)) / len(self.assignments_)

    def _warn(self, entropy: float) -> None:
        """Warn of nearly uniform assignments, given their mean entropy, and of empty clusters."""
        remedy = "a lower temperature or, if there are outliers, a bandwidth of the scale of the clusters"
        warn_of_uniform(entropy, self.n_clusters_, stacklevel=5, remedy=remedy)
        remedy = "a smaller weight, fewer clusters or more starts"
        if self.n_neighbors > 1:  # clusters with fewer points are joined to others
            remedy = f"n_neighbors below {self.n_neighbors}, {remedy}"
        warn_of_empty(self.n_empty_, self.n_clusters_, stacklevel=5, remedy=remedy)
