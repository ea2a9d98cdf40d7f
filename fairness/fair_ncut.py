"""Fair normalised cut (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as a scikit-learn estimator."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data
from torch import Tensor

from clustering.estimator_input import Device
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.row_graph import graph_and_variance, scipy_graph
from clustering.graphs.sparse_graph import SparseGraph
from clustering.metrics import graph_objectives
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds
from clustering.starts import best_start, cluster_sizes
from fairness.fit_input import SmallGroups, fit_input, warn_if_groups_are_y, warn_if_one_group
from fairness.groups import Groups, Missing
from fairness.metrics import soft_fairness_error
from fairness.optimiser.fair_spectrum import embedded_labels, fair_embedding, linked_points
from fairness.optimiser.flow_rounding import rounded_assignments
from fairness.optimiser.moves import rungs
from fairness.optimiser.ncut_descent import lowered
from fairness.optimiser.terms import GroupProportions, NormalizedCut
from fairness.optimiser.weight_search import Ended, Goal, SearchResult
from fairness.reporting import keep_fairness, warn_if_labels_less_fair
from fairness.trade_off import GRID, path_weights

_AUTOMATIC = 10.0
"""Default weight. It needs no scale, since the cut is between 0 and K, and the error is a sum over the same K
clusters."""

_LOWEST_RUNG, _STEEP = 0.01, 4.0
"""Lowest weight that leads to a weight, and ratio of consecutive ones if the number of rungs permits it."""

_ON_A_RUNG = 150
"""Maximum number of steps at an intermediate weight."""


class FairNcut(ClusterMixin, BaseEstimator):  # type: ignore[misc]
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
    fairness_weight : lambda >= 0 of E, in units of the cut, which is 0..K. None uses 10. "auto": see max_error.
    max_error, min_balance : as in `FairKMeans`.
    target, intersectional, numeric_bins, missing, small_groups : definition of the groups, as in `FairKMeans`.
    n_neighbors : number of neighbours k in the graph, not counting the point itself; at most N - 1 are used. The
        default of 19 is that of the papers' code, which counts the point itself among its 20.
    init : first labels. "k-means++" takes the nearest seed (papers). "spectral" does the same and, if the weight is
        above 0, adds a start from fair spectral clustering (`fairness.optimiser.fair_spectrum`), which often leads to
        far lower cuts and costs K eigenvectors of the graph. An array (N,) gives the labels 0..K-1 of a single start.
    n_init : number of starts; the one with the most clusters and, among those, the lowest E is kept.
    rungs : maximum number of intermediate weights between 0 and the weight.
    mixing : share of each point's assignment that is spread evenly over all clusters when S is initialised from labels.
    pseudo_count : pseudo-count e of the fairness term, in points; it keeps the term finite when a group leaves a
        cluster.
    rounding : "argmax" takes the largest assignment as label (papers). "flow" chooses the labels of points between
        clusters so that the count of each group in each cluster is within one of its count under S, which may be none.
    normalize : as in `fairness.fair_kmeans.FairKMeans`.
    max_iter, tol : maximum number of steps at each weight; relative change of E below which they stop, if the gap is
        small.
    gap_tol : largest stationarity gap of S at the end, as a share of E.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    objective_ : normalised cut of W by the labels, summed over clusters that have arcs.
    relaxed_objective_ : E. gap_ : stationarity gap of S, in units of E.
    history_ : (steps,) E after each step at the final weight. n_iter_ : total number of steps, including those on
        rungs.
    converged_ : whether tol ended the steps.
    graph_ : W. n_isolated_ : number of points without arcs, which have no cut cost and are placed by the groups alone.
    soft_fairness_error_ : fairness error of S.
    fairness_weight_, weight_path_, fairness_error_, balance_min_, balance_mean_, group_counts_,
    group_names_, target_, absent_groups_, n_empty_, seconds_, n_features_in_, feature_names_in_ : as in `FairKMeans`.
    """

    kind = "ncut"

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        fairness_weight: Annotated[float, AtLeast(0)] | Literal["auto"] | None = None,
        max_error: Annotated[float, AtLeast(0)] | None = None,
        min_balance: Annotated[float, Within(0, 1)] | None = None,
        target: Any = None,
        intersectional: bool = False,
        numeric_bins: Any = None,
        missing: Missing = "error",
        small_groups: SmallGroups = "error",
        n_neighbors: Annotated[int, AtLeast(1)] = 19,
        init: str | ArrayLike = "spectral",
        n_init: Annotated[int, AtLeast(1)] = 3,
        rungs: Annotated[int, AtLeast(0)] = 10,
        mixing: Annotated[float, Within(0, 1)] = 0.1,
        pseudo_count: Annotated[float, Above(0)] = 1e-3,
        rounding: Literal["argmax", "flow"] = "argmax",
        normalize: Literal["l2"] | None = None,
        max_iter: Annotated[int, AtLeast(1)] = 1000,
        tol: Annotated[float, AtLeast(0)] = 1e-6,
        gap_tol: Annotated[float, AtLeast(0)] = 1e-3,
        device: Device = "cpu",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.fairness_weight = fairness_weight
        self.max_error = max_error
        self.min_balance = min_balance
        self.target = target
        self.intersectional = intersectional
        self.numeric_bins = numeric_bins
        self.missing = missing
        self.small_groups = small_groups
        self.n_neighbors = n_neighbors
        self.init = init
        self.n_init = n_init
        self.rungs = rungs
        self.mixing = mixing
        self.pseudo_count = pseudo_count
        self.rounding = rounding
        self.normalize = normalize
        self.max_iter = max_iter
        self.tol = tol
        self.gap_tol = gap_tol
        self.device = device
        self.random_state = random_state

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
        watch = Stopwatch()
        values, groups = fit_input(self, X, sensitive_features)
        if y is None:
            warn_if_one_group(self, [self.fairness_weight], groups, sensitive_features)
        goal = Goal.of(self, groups)
        problem = self._problem(values, groups, graph)
        if goal is None:
            end = self._at_weights(problem, [self.fairness_weight])[0]
        else:
            search = self._search(problem, goal)
            end, self.weight_path_ = search.end, search.path
            goal.warn_if_missed(search, remedy="rounding='flow'" if self.rounding == "argmax" else "")
        self._keep(end, problem, problem.seconds(watch.lap(), 1))
        return self

    @shared_if_large
    def path(
        self,
        X: ArrayLike,
        weights: Sequence[float] | None = None,
        *,
        sensitive_features: Any = None,
        graph: Any = None,
        done: Callable[[int, int], None] | None = None,
    ) -> list[Self]:
        """Fitted clones at several weights, from a single fit.

        All weights share the graph and the starts, and each weight starts from the result of the next lower one.

        Args:
            X: as in `fit`.
            weights: values of fairness_weight in any order, which is also the order of the result. None uses
                `fairness.trade_off.GRID`.
            sensitive_features: as in `fit`.
            graph: as in `fit`.
            done: callback, called with the number of finished weights and their total number.

        Raises:
            InputError: as in `fit`, or `weights` is invalid.
        """
        watch, lambdas = Stopwatch(), path_weights(weights)
        values, groups = fit_input(self, X, sensitive_features)
        warn_if_one_group(self, lambdas, groups, sensitive_features)
        problem = self._problem(values, groups, graph)
        ends = self._at_weights(problem, lambdas, done)
        seconds = problem.seconds(watch.lap(), len(lambdas))
        models = [
            clone(self).set_params(fairness_weight=weight, max_error=None, min_balance=None) for weight in lambdas
        ]
        for model, end in zip(models, ends, strict=True):
            validate_data(model, X, reset=True, skip_check_array=True)
            model._keep(end, problem, seconds)
        return models

    def _problem(self, values: Tensor, groups: Groups, graph: Any) -> "_Problem":
        watch, rows = Stopwatch(), Rows.of(values)
        W, _ = graph_and_variance(graph, rows, self.n_neighbors, "average", 1.0)
        building = watch.lap()
        labels = self._first_labels(rows)
        return _Problem(values, groups, labels, W, watch.lap(), building)

    def _at_weights(
        self, problem: "_Problem", weights: Sequence[Any], done: Callable[[int, int], None] | None = None
    ) -> list["_End"]:
        """Result of the best start at each of the weights."""
        requested = [_AUTOMATIC if weight is None else float(weight) for weight in weights]
        if problem.groups.trivial:
            requested = [0.0 for _ in requested]
        ends: dict[float, _End] = {}
        rising = sorted(set(requested))
        for best, *_ in self._descents(problem, rising):
            ends[best.weight] = best
            if done is not None:
                done(len(ends), len(rising))
        return [ends[weight] for weight in requested]

    def _search(self, problem: "_Problem", goal: Goal) -> SearchResult["_End"]:
        """Search all starts and weights for the result with the lowest cut that reaches the goal."""

        def run(weights: Iterable[float]) -> Iterator[list[Ended["_End"]]]:
            for ends in self._descents(problem, weights):
                cuts = [graph_objectives(end.labels, problem.affinities).normalised_cut for end in ends]
                yield [Ended(end.weight, end.labels, cut, end) for end, cut in zip(ends, cuts, strict=True)]

        weights = [0.0] if problem.groups.trivial else GRID
        return goal.search([run], problem.groups, self.n_clusters, weights)

    def _spectral_labels(self, problem: "_Problem") -> Tensor:
        """(T, N) labels from fair spectral clustering; T is 0 if `init` excludes it or the graph has too few linked
        points."""
        groups, K = problem.groups, self.n_clusters
        applies = isinstance(self.init, str) and self.init == "spectral" and not groups.trivial
        if not applies or not len(linked_points(problem.affinities)) >= K > 1:
            return problem.labels[:0]
        generator = stream(seed_of(self.random_state), "fair start")
        embedding, _ = fair_embedding(problem.affinities, groups, K, generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # too few distinct rows
            labels = embedded_labels(embedding, problem.affinities, problem.values, K, self.n_init, generator)
        return torch.from_numpy(labels[None]).to(problem.values.device)

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

    def _descents(self, problem: "_Problem", weights: Iterable[float]) -> Iterator[list["_End"]]:
        """Results of the starts at each of the weights, the best start first.

        Weights are consumed one at a time, and only the first may be 0. A larger weight is reached in rungs; a lower
        one starts from the state before the last increase.
        """
        values, groups, labels, W = problem.values, problem.groups, problem.labels, problem.graph
        cut = NormalizedCut(W, W.degrees)
        cells = torch.from_numpy(groups.cells).to(values.device)
        indicators = torch.from_numpy(groups.membership).to(values)[cells]
        target = torch.from_numpy(groups.target).to(values)
        attributes = [np.flatnonzero(groups.attribute_of == t).tolist() for t in range(len(groups.attributes))]
        S = self._smoothed(labels, values)
        reached, steps = 0.0, 0
        kept = S, reached
        for weight in weights:
            if weight < reached:
                S, reached = kept
            kept = S, reached
            if weight > 0 and reached == 0:  # deferred, since weight 0 alone does not need the eigenvectors
                S = torch.cat([S, self._smoothed(self._spectral_labels(problem), values)])
            for rung in [*rungs(max(reached, _LOWEST_RUNG), weight, _STEEP, self.rungs), weight]:
                fair = [GroupProportions(indicators[:, j], target[j], rung, self.pseudo_count) for j in attributes]
                descent = lowered(
                    [cut, *fair] if rung > 0 else [cut],
                    S,
                    max_iterations=self.max_iter if rung == weight else min(_ON_A_RUNG, self.max_iter),
                    tolerance=self.tol,
                    gap_tolerance=self.gap_tol,
                )
                S, steps = descent.assignments, steps + descent.steps
            sizes = cluster_sizes(S.mT.max(dim=1).indices, self.n_clusters)
            best = best_start(descent.objective, sizes, S.dtype)
            ends = []
            for start in sorted(range(len(S)), key=lambda start: start != best):
                counts = S.new_zeros(len(groups.membership), self.n_clusters, dtype=torch.float64)
                counts.index_add_(0, cells, S[start].double())
                end = _End(
                    weight,
                    self._labels(S[start], groups),
                    float(descent.objective[start]),
                    soft_fairness_error(counts.cpu().numpy(), groups),
                    float(descent.gap[start]),
                    bool(descent.converged[start]),
                    np.array(descent.history[start]),
                    steps,
                )
                ends.append(end)
            yield ends
            reached, steps = weight, 0
            if weight == 0:  # points with one-hot assignments would leave their cluster slowly
                S = self._smoothed(S.mT.max(dim=1).indices, values)

    def _smoothed(self, labels: Tensor, values: Tensor) -> Tensor:
        """(T, N, K) assignments from labels (T, N), with a share `mixing` of each spread evenly."""
        shape = (*labels.shape, self.n_clusters)
        S = torch.full(shape, self.mixing / self.n_clusters, dtype=values.dtype, device=values.device)
        return S.scatter_add_(2, labels[..., None], torch.full_like(S[..., :1], 1 - self.mixing))

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
        if end.weight > 0:
            warn_if_labels_less_fair(fair, end.error, self.rounding)
        self.objective_ = graph_objectives(end.labels, problem.affinities).normalised_cut
        self.fairness_weight_, self.soft_fairness_error_ = end.weight, end.error
        self.relaxed_objective_, self.gap_ = end.objective, end.gap
        self.history_, self.n_iter_, self.converged_ = end.history, max(1, end.steps), end.converged
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

    values: Tensor
    groups: Groups
    labels: Tensor  # (T, N)
    graph: SparseGraph
    seeding: float  # seconds
    building: float  # seconds

    @cached_property
    def affinities(self) -> csr_array:
        """The graph as a float64 scipy array."""
        return scipy_graph(self.graph)

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
    history: NDArray[np.float64]
    steps: int
