"""Fair normalised cut (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as a scikit-learn estimator."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from clustering.estimator_input import Device
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
from clustering.starts import best_start, cluster_sizes
from fairness.fit_input import fit_input, warn_if_groups_are_y
from fairness.groups import Groups
from fairness.metrics import cluster_errors, occupied
from fairness.optimiser.fair_spectrum import embedded_labels, fair_embedding, linked_points
from fairness.optimiser.flow_rounding import rounded_assignments
from fairness.optimiser.moves import rungs
from fairness.optimiser.ncut_descent import lowered
from fairness.optimiser.terms import GroupProportions, NormalizedCut
from fairness.reporting import keep_fairness
from fairness.weighted import Weighted

_LOWEST_RUNG, _STEEP = 0.01, 4.0
"""Lowest weight that leads to a weight, and ratio of consecutive ones, see `rungs`."""

_ON_A_RUNG = 150
"""Maximum number of steps at an intermediate weight."""

_MIXING = 0.1
"""Share of each point's assignment that is spread evenly over all clusters when S is initialised from labels."""

_REMEDIES = {
    "argmax": "some points have fractional assignments; set rounding='flow', which changes the counts of groups by "
    "less than one",
    "flow": "counts of groups change by less than one, so a small cluster may lack a group; set fewer n_clusters",
}
"""Advice for labels that are less fair than the assignments, by the kind of rounding."""

_PSEUDO_COUNT = 1e-3
"""Pseudo-count of the fairness term, in points; it keeps the term finite when a group leaves a cluster."""

_TOLERANCE, _GAP = 1e-6, 1e-3
"""Steps stop at a relative change of E below the first, if the stationarity gap of S is at most the second, as a share
of E."""


class Step(NamedTuple):
    """One step: the weight of the fairness term, and E at this weight after the step."""

    weight: float
    objective: float


@dataclass(eq=False, repr=False)
class FairNcut(Weighted):
    """Normalised cut of the neighbour graph whose clusters have the sensitive groups in target proportions.

    Minimises, over assignments S with rows on the simplex (thesis eq. 3.4, Ncut of Table 3.1),

        E(S) = K - sum_k S_k' W S_k / d' S_k + weight sum_k KL(U || P_k),     W the symmetric kNN graph, d its degrees,

    by the common optimiser `clustering.optimiser.descent.descend`, with moves out of corners
    (`fairness.optimiser.ncut_descent`). Both terms are linearised at S, and a proximal guard ensures that E never
    rises, whatever W and the weight are. All starts run as one batch over one graph. The fit starts from labels at
    weight 0 and raises the weight in rungs. There is no `predict`: the method assigns only the points of the graph.
    Memory: the graph and about a dozen N x K arrays per start.

    A graph with more components than clusters has many cuts of cost 0, and fairness among them costs nothing.

    Parameters
    ----------
    n_clusters : number of clusters K.
    fairness_weight : lambda >= 0 of E, in units of the cut, which is 0..K. None uses 10. A goal, such as
        {"max_error": 0.1}, searches for the weight as in `FairKMeans`.
    target, intersectional, small_groups : definition of the groups, as in `FairKMeans`.
    n_neighbors : number of neighbours k in the graph, not counting the point itself; at most N - 1 are used. The
        default of 19 is that of the papers' code, which counts the point itself among its 20.
    init : first labels. "k-means++" takes the nearest seed (papers). "spectral" does the same and, if the weight is
        above 0, adds a start from fair spectral clustering (`fairness.optimiser.fair_spectrum`), which often leads to
        far lower cuts and costs K eigenvectors of the graph. An array (N,) gives the labels 0..K-1 of a single start.
    n_init : number of starts; the one with the most clusters and, among those, the lowest E is kept.
    rounding : "argmax" takes the largest assignment as label (papers). "flow" chooses the labels of points between
        clusters so that the count of each group in each cluster is within one of its count under S, which may be none.
    max_iter : maximum number of steps at each weight.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    objective_ : normalised cut of W by the labels, summed over clusters that have arcs.
    relaxed_objective_ : E. gap_ : stationarity gap of S, in units of E.
    history_ : `fairness.fair_ncut.Step` of each step of the start that is kept, rungs included. n_iter_ : number of
        steps.
    converged_ : whether the steps ended before max_iter.
    graph_ : W. n_isolated_ : number of points without arcs, which have no cut cost and are placed by the groups alone.
    soft_fairness_error_ : fairness error of S.
    fairness_weight_, weight_path_, fairness_error_, balance_min_, balance_mean_, group_counts_,
    group_names_, target_, absent_groups_, n_empty_, seconds_, n_features_in_, feature_names_in_ : as in `FairKMeans`.
    """

    revision: ClassVar[int] = 2

    kind = "ncut"

    _: KW_ONLY
    n_neighbors: Annotated[int, AtLeast(1)] = 19
    init: str | ArrayLike = "spectral"
    rounding: Literal["argmax", "flow"] = "argmax"
    max_iter: Annotated[int, AtLeast(1)] = 1000
    device: Device = "cpu"

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

    def _begin(self, X: Any, features: Any, graph: Any = None) -> "_Problem":
        values, groups = fit_input(self, X, features)
        watch, rows = Stopwatch(), Rows.of(values)
        W, _ = graph_and_variance(graph, rows, self.n_neighbors, "average", 1.0)
        building = watch.lap()
        labels = self._first_labels(rows)
        return _Problem(self, values, groups, labels, W, watch.lap(), building)

    def _first_labels(self, rows: Rows) -> Tensor:
        """(T, N) labels from which the starts begin."""
        if isinstance(self.init, str) and self.init in ("spectral", "k-means++"):
            seeds = first_seeds("k-means++", rows, self.n_clusters, self.n_init, self.random_state)
            return rows.squared_distances(seeds).min(dim=1).indices
        labels = np.asarray(self.init)
        integers = np.issubdtype(labels.dtype, np.integer)
        if labels.shape != (len(rows.values),) or not integers or labels.min() < 0 or labels.max() >= self.n_clusters:
            raise InputError(f"init must be spectral, k-means++ or {len(rows.values)} labels 0..{self.n_clusters - 1}")
        return torch.from_numpy(labels.astype(np.int64)).to(rows.values.device)[None]

    def _ends(
        self, problem: "_Problem", weights: Sequence[float], done: Callable[[int, int], None] | None = None
    ) -> list["_End"]:
        """Result of the best start at each of the rising weights, each of which is reached from the one before in
        rungs."""
        values, groups, labels, W = problem.values, problem.groups, problem.labels, problem.graph
        cut = NormalizedCut(W, W.degrees)
        cells = torch.from_numpy(groups.cells).to(values.device)
        indicators = torch.from_numpy(groups.membership).to(values)[cells]
        target = torch.from_numpy(groups.target).to(values)
        attributes = [np.flatnonzero(groups.attribute_of == t).tolist() for t in range(len(groups.attributes))]
        S, reached, ends = self._smoothed(labels, values), 0.0, list[_End]()
        for weight in weights:
            if weight > 0 and reached == 0:  # deferred, since weight 0 alone does not need the eigenvectors
                S = torch.cat([S, self._smoothed(problem.spectral_labels, values)])
            history: list[list[Step]] = [[] for _ in S]
            for rung in [*rungs(max(reached, _LOWEST_RUNG), weight, _STEEP), weight]:
                fair = [GroupProportions(indicators[:, j], target[j], rung, _PSEUDO_COUNT) for j in attributes]
                descent = lowered(
                    [cut, *fair] if rung > 0 else [cut],
                    S,
                    max_iterations=self.max_iter if rung == weight else min(_ON_A_RUNG, self.max_iter),
                    tolerance=_TOLERANCE,
                    gap_tolerance=_GAP,
                )
                S = descent.assignments
                for steps, of_start in zip(history, descent.history, strict=True):
                    steps += [Step(rung, objective) for objective in of_start]
            sizes = cluster_sizes(S.mT.max(dim=1).indices, self.n_clusters)
            best = best_start(descent.objective, sizes, S.dtype)
            counts = S.new_zeros(len(groups.membership), self.n_clusters, dtype=torch.float64)
            by_group = groups.membership.T @ counts.index_add_(0, cells, S[best].double()).cpu().numpy()
            end = _End(
                weight,
                self._labels(S[best], groups),
                float(descent.objective[best]),
                float(cluster_errors(by_group, groups)[occupied(by_group)].sum()),
                float(descent.gap[best]),
                bool(descent.converged[best]),
                tuple(history[best]),
            )
            ends.append(end)
            if done is not None:
                done(len(ends), len(weights))
            reached = weight
            if weight == 0:  # points with one-hot assignments would leave their cluster slowly
                S = self._smoothed(S.mT.max(dim=1).indices, values)
        return ends

    def _smoothed(self, labels: Tensor, values: Tensor) -> Tensor:
        """(T, N, K) assignments from labels (T, N), with a share of each spread evenly."""
        shape = (*labels.shape, self.n_clusters)
        S = torch.full(shape, _MIXING / self.n_clusters, dtype=values.dtype, device=values.device)
        return S.scatter_add_(2, labels[..., None], torch.full_like(S[..., :1], 1 - _MIXING))

    def _labels(self, S: Tensor, groups: Groups) -> NDArray[np.int64]:
        labels: NDArray[np.int64] = S.mT.max(dim=0).indices.cpu().numpy()
        if self.rounding == "flow":
            between = S.amax(dim=1) < 1 - 1e-3
            assignments = S[between].double().cpu().numpy()
            rows = between.cpu().numpy()
            labels[rows] = rounded_assignments(assignments, groups.cells[rows])
        return labels

    def _keep(self, end: "_End", problem: "_Problem", seconds: Seconds) -> None:
        W = problem.graph
        labels, _ = numbered(self, end.labels)
        fair = keep_fairness(self, labels, problem.groups)
        if end.weight > 0 and fair.error > 1.25 * end.error + 0.01:
            absent = f", with {len(fair.absent)} absent groups" if fair.absent else ""
            warnings.warn(
                f"the fairness error of the labels, {fair.error:.4g}{absent}, is above that of the assignments, "
                f"{end.error:.4g}: {_REMEDIES[self.rounding]}",
                ConvergenceWarning,
                stacklevel=5,
            )
        self.objective_ = problem.objective(end.labels)
        self.fairness_weight_, self.soft_fairness_error_ = end.weight, end.error
        self.relaxed_objective_, self.gap_ = end.objective, end.gap
        self.history_, self.n_iter_, self.converged_ = end.history, max(1, len(end.history)), end.converged
        self.graph_, self.seconds_ = W, seconds
        self.n_isolated_ = int((W.pointers.diff() == 0).sum())
        if self.n_isolated_:
            warnings.warn(
                f"{self.n_isolated_} points have no arcs and are not connected to the graph; pass a graph with "
                "more arcs",
                stacklevel=5,
            )


@dataclass(frozen=True, eq=False)
class _Problem:
    """Data and first labels of a fit."""

    model: FairNcut
    values: Tensor
    groups: Groups
    labels: Tensor  # (T, N)
    graph: SparseGraph
    seeding: float  # seconds
    building: float  # seconds

    unit: ClassVar[float] = 1.0
    """Unit of the weight, which needs no scale: the cut is between 0 and K, and the error a sum over K clusters."""

    @cached_property
    def affinities(self) -> csr_array:
        """The graph as a float64 scipy array."""
        return scipy_graph(self.graph)

    @cached_property
    def spectral_labels(self) -> Tensor:
        """(T, N) labels from fair spectral clustering; T is 0 if `init` excludes it or the graph has too few linked
        points."""
        model, K = self.model, self.model.n_clusters
        applies = isinstance(model.init, str) and model.init == "spectral" and not self.groups.trivial
        if not applies or not len(linked_points(self.affinities)) >= K > 1:
            return self.labels[:0]
        generator = stream(seed_of(model.random_state), "fair start")
        embedding, _ = fair_embedding(self.affinities, self.groups, K, generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # too few distinct rows
            labels = embedded_labels(embedding, self.affinities, self.values, K, model.n_init, generator)
        return torch.from_numpy(labels[None]).to(self.values.device)

    def objective(self, labels: NDArray[np.int64]) -> float:
        return graph_objectives(labels, self.affinities).normalised_cut

    def seconds(self, total: float, models: int) -> Seconds:
        """Share of each of `models` models in a fit of `total` seconds."""
        rest = total - self.seeding - self.building
        return Seconds(self.building / models, self.seeding / models, rest / models)


class _End(NamedTuple):
    """Result of a start at one weight."""

    weight: float
    labels: NDArray[np.int64]
    objective: float  # E
    error: float  # of the assignments
    gap: float
    converged: bool
    history: tuple[Step, ...]
