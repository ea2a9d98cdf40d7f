"""Scalable Laplacian K-modes (Ziko, Granger and Ben Ayed, NeurIPS 2018) and its kin, as a scikit-learn estimator."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from clustering.alternation import Clamp, Members, Outcome, Sweeps
from clustering.centres import ByProductModes, Means, Medoids, Modes, Rows, Rule
from clustering.descent import Step
from clustering.errors import InputError
from clustering.graph import Symmetry
from clustering.knn import nearest_among
from clustering.parameters import Above, AtLeast, validate_signature
from clustering.row_graph import graph_and_variance
from clustering.seeding import first_seeds, prototypes_about, prototypes_of
from clustering.timing import Seconds, Stopwatch
from clustering.trials import Course, Trials, discrete_energy, run_trials

_PRESETS: dict[str, dict[str, Any]] = {
    "slk2018-ms": {"prototypes": "mean_shift"},
    "slk2018-bo": {"prototypes": "byproduct", "safeguard": False},
    "journal-means": {"prototypes": "mean"},
}
_PUBLISHED = {
    "weight": 1.3,
    "convention": "paper",
    "normalize": "l2",
    "n_neighbors": 4,  # the public code counts the point itself among its 5
    "bandwidth": "published",
    "n_init": 1,
    "select": "energy",
    "warm_up": 0,
    "weight_path": None,
    "mode_weights": "hard",
    "warm_start": False,
    "on_empty": "rollback",
    "step": "published",
    "max_sweeps": 1000,
    "sweep_tol": 1e-6,
    "tol": 1e-5,
}


class SLK(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters around prototypes, in which neighbours are drawn to the same cluster.

    Lowers, over labels one-hot in S and prototypes M (thesis eq. 2.4),

        E(S, M) = F(S, M) + weight sum_pq w_pq [l_p != l_q],        W the symmetric kNN graph of the points,

    by its relaxation over row-stochastic S, R(S, M) = F(S, M) + <S, log S> - weight <S, W S>, in turns: bound steps
    for S, each of which is a sparse product and a softmax (`clustering.descent`), and new prototypes. Within the steps
    for S, R never rises; with soft mode weights and a warm start it does not from one update of the prototypes to the
    next either, unless an empty cluster begins again elsewhere. Which start is best decides more than the weight does;
    docs/clustering.md has the measurements behind the defaults.

    Memory: besides X, the graph and about a dozen N x K arrays for each of `n_init` starts. Nothing is N x N.

    Parameters
    ----------
    n_clusters : K.
    prototypes : F and its prototypes. "mean_shift": F = -beta sum_pk s_pk g(x_p, m_k), modes by mean-shift of the
        kernel g(x, m) = exp(-||x - m||^2 / (2 sigma^2)) (SLK-MS); "byproduct": the same F, modes the members with the
        best assignment, which are rows of X (SLK-BO); "mean": F = beta sum_pk s_pk ||x_p - m_k||^2 (SLK-Means), whose
        balance with the graph depends on the scale of X; "medoid": distances that are not squared, to rows of X.
    weight : lambda >= 0 of E above, per stored arc and both ways. Nothing keeps a large one from joining clusters.
    n_neighbors : k of the graph, the point itself not counted; N - 1 where there are fewer others.
    symmetry : how arcs become W: "average" (W + W^T) / 2, "union", "mutual"; "directed" only with step="published".
    bandwidth : sigma > 0; "estimate": sigma^2 is the mean squared distance to the neighbours in the graph (thesis
        section 2.4); "published": k / (k + 1) of that, as the public code has it.
    beta : factor of F, an inverse temperature; 1 in the papers.
    init : "k-means++", or (K, D) first prototypes, then one start only.
    n_init : starts, of which one is the result, see `select`.
    select : "energy": the start of lowest E, among those of most clusters. "information": of lowest E - N H, with H
        the entropy of the clusters' shares in nats, which prefers even sizes among starts that are nearly as good.
    warm_up : of "byproduct" and "medoid", whose prototypes hardly move once they are rows: so many updates by a single
        mean-shift step come first. 0 in the papers.
    weight_path : shares of `weight`, below 1 and rising, that are gone through first, each from where the one before
        ended.
    normalize : "l2": rows are divided by their length, zero rows stay; the papers do. None: as they are.
    convention : "exact": `weight` as above. "paper": lambda of the papers' update softmax(-a + lambda W S), whose
        tangent lacks a factor 2: it lowers R of half the weight. E is reported with `weight` either way.
    mode_weights : what points weigh in the prototypes: their assignments, or 1 in the likeliest cluster.
    warm_start : S begins where it ended before the prototypes moved, so that R falls from update to update; False: at
        softmax of the unary cost (papers), which lets clusters move farther.
    on_empty : a cluster without points begins again at the point farthest from its prototype ("reseed", ten times at
        most), keeps its prototype ("keep"), ends that start before the step ("rollback", public code), or raises
        ("error").
    step : "monotone" or "published", see `clustering.descent.descend`.
    safeguard : a by-product mode is taken only where the density of its cluster is no lower there.
    max_iter, tol : updates of the prototypes at most; relative change of R at which they end.
    max_sweeps, sweep_tol : likewise of S between two updates.
    device : "cpu", "cuda", or "auto", which is cuda where there is one.
    random_state : seed of the starts.

    Attributes
    ----------
    labels_ : (N,) int, argmax of assignments_, ties to the lowest cluster.
    assignments_ : (N, K) S, rows sum to one; clusters are more certain the larger the weight.
    cluster_centers_ : (K, D) prototypes, on normalised rows if `normalize`.
    mode_indices_ : (K,) rows of X that are the prototypes, -1 where one is not ("byproduct" and "medoid" only).
    objective_ : E. relaxed_objective_ : R, with half the weight under convention="paper".
    objective_trace_ : R after each update of S at the last weight of the path.
    n_iter_ : updates of the prototypes, those of the path included.
    n_reseeded_ : empty clusters that began again. n_empty_ : clusters without points in the result.
    start_objectives_ : (n_init,) E of every start; the spread tells how much the start decides.
    converged_ : whether it ended before max_iter.
    seconds_ : `clustering.timing.Seconds` of the fit.
    bandwidth_ : sigma. graph_ : W. n_features_in_, feature_names_in_ : of scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        prototypes: Literal["mean", "mean_shift", "byproduct", "medoid"] = "mean_shift",
        weight: Annotated[float, AtLeast(0)] = 0.65,
        n_neighbors: Annotated[int, AtLeast(1)] = 5,
        symmetry: Symmetry = "average",
        bandwidth: Literal["estimate", "published"] | Annotated[float, Above(0)] = "estimate",
        beta: Annotated[float, Above(0)] = 1.0,
        init: str | ArrayLike = "k-means++",
        n_init: Annotated[int, AtLeast(1)] = 8,
        select: Literal["information", "energy"] = "information",
        warm_up: Annotated[int, AtLeast(0)] = 6,
        weight_path: Sequence[float] | None = None,
        normalize: Literal["l2"] | None = None,
        convention: Literal["exact", "paper"] = "exact",
        mode_weights: Members = "soft",
        warm_start: bool = False,
        on_empty: Literal["reseed", "keep", "rollback", "error"] = "reseed",
        step: Step = "monotone",
        safeguard: bool = True,
        max_iter: Annotated[int, AtLeast(1)] = 100,
        tol: Annotated[float, AtLeast(0)] = 1e-4,
        max_sweeps: Annotated[int, AtLeast(1)] = 50,
        sweep_tol: Annotated[float, AtLeast(0)] = 1e-4,
        device: Literal["cpu", "cuda", "auto"] = "cpu",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.prototypes = prototypes
        self.weight = weight
        self.n_neighbors = n_neighbors
        self.symmetry = symmetry
        self.bandwidth = bandwidth
        self.beta = beta
        self.init = init
        self.n_init = n_init
        self.select = select
        self.warm_up = warm_up
        self.weight_path = weight_path
        self.normalize = normalize
        self.convention = convention
        self.mode_weights = mode_weights
        self.warm_start = warm_start
        self.on_empty = on_empty
        self.step = step
        self.safeguard = safeguard
        self.max_iter = max_iter
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.sweep_tol = sweep_tol
        self.device = device
        self.random_state = random_state

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "SLK":
        """The settings of the public code: "slk2018-ms", "slk2018-bo" or "journal-means", with some changed."""
        if name not in _PRESETS:
            raise InputError(f"unknown preset {name!r}; known: {', '.join(_PRESETS)}")
        return cls(**{**_PUBLISHED, **_PRESETS[name], **changes})

    def fit(self, X: ArrayLike, y: Any = None, *, partial_labels: ArrayLike | None = None, graph: Any = None) -> "SLK":
        """Cluster the rows of X.

        Args:
            X: (N, D) float32 or float64, other numbers become float32. Finite.
            y: ignored.
            partial_labels: (N,) int, known clusters 0..K-1 of some points, which keep them, and -1.
            graph: W, see `clustering.row_graph.given_graph`; built from X where None.

        Raises:
            InputError: a parameter, X, labels or graph that cannot be; fewer distinct points than clusters.
        """
        validate_signature(self)
        path = self._path()
        rows = Rows.of(self._rows(X, reset=True))
        points = len(rows.values)
        if points < self.n_clusters:
            raise InputError(f"n_samples={points} should be >= n_clusters={self.n_clusters}")
        clamp = self._clamp(partial_labels, rows)
        watch = Stopwatch()
        self.graph_, variance = graph_and_variance(graph, rows, self.n_neighbors, self.symmetry, self.bandwidth)
        self.bandwidth_ = variance**0.5
        graph_seconds = watch.lap()
        rule = self._rule(rows)
        seeds = first_seeds(self.init, rows, self.n_clusters, self.n_init, self.random_state, clamp)
        seeding_seconds = watch.lap()
        slopes = seeds.new_full((len(seeds),), self._slope)
        course = Course(
            Sweeps(self.step, self.max_sweeps, self.sweep_tol, warm=self.warm_start),
            self.mode_weights if self.prototypes in ("mean", "mean_shift") else "soft",
            "rollback" if self.on_empty == "error" else self.on_empty,
            self.max_iter,
            self.tol,
        )
        if self.warm_up and self.prototypes in ("byproduct", "medoid"):
            shift = Modes(rows, variance, self.beta, steps=1)
            brief = replace(course, max_iterations=self.warm_up, empty="keep")
            first = run_trials(
                shift, self.graph_, prototypes_about(seeds, rows, shift, clamp), slopes, clamp=clamp, course=brief
            )
            start = prototypes_of(first.labels, rule, first.prototypes)
        else:
            start = prototypes_about(seeds, rows, rule, clamp)
        found = run_trials(rule, self.graph_, start, slopes, path=path, clamp=clamp, course=course)
        self._keep(found, rule, rows)
        self.seconds_ = Seconds(graph_seconds, seeding_seconds, watch.lap())
        return self

    def predict(self, X: ArrayLike, *, by: Literal["graph", "prototypes"] = "graph") -> NDArray[np.int64]:
        """(n,) clusters of new points.

        Args:
            X: (n, D).
            by: "graph": one bound step for the new point, whose arcs lead to its n_neighbors nearest rows of the
                fitted X, weight 1 each, S of these fixed. "prototypes": the cluster of the smallest unary cost.
        """
        check_is_fitted(self)
        if by not in ("graph", "prototypes"):
            raise InputError(f"by must be graph or prototypes, not {by!r}")
        new = self._rows(X, reset=False)
        centres = torch.from_numpy(self.cluster_centers_).to(new)
        origin = self._fitted.origin
        rows = Rows(new, origin)
        logits = -self._rule(rows).cost((centres if origin is None else centres - origin)[None])[0]
        if by == "graph" and self.weight > 0:
            fitted = self._fitted.values
            if origin is not None:
                fitted, new = fitted - origin, new - origin
            near = nearest_among(fitted, new, self.n_neighbors)
            assignments = torch.from_numpy(self.assignments_).to(new)
            logits += self._slope * assignments[near].sum(dim=1).T
        return logits.max(dim=0).indices.cpu().numpy()

    @property
    def _slope(self) -> float:
        """c of the update softmax(-cost + c W S), and so of R's term -(c / 2) <S, W S>: where the papers' factor is."""
        return self.weight if self.convention == "paper" else 2 * self.weight

    def _path(self) -> tuple[float, ...]:
        path = tuple(float(share) for share in (self.weight_path if self.weight_path is not None else ()))
        if not all(0 <= low < high for low, high in pairwise((*path, 1.0))):
            raise InputError(f"SLK: weight_path must be rising shares of weight in [0, 1), not {self.weight_path!r}")
        if self.symmetry == "directed" and self.step == "monotone" and self.weight > 0:
            raise InputError(
                "SLK: a directed graph has no objective that a monotone step could lower; "
                "set symmetry='average', or step='published'"
            )
        return path

    def _rows(self, X: ArrayLike, *, reset: bool) -> Tensor:
        """(N, D) validated, normalised rows on the device."""
        values = validate_data(self, X, reset=reset, dtype=[np.float32, np.float64], ensure_all_finite=False, order="C")
        finite = np.isfinite(values.sum(axis=1, dtype=np.float64))
        if not finite.all():
            row = int(np.flatnonzero(~finite)[0])
            raise InputError(f"Input X contains NaN or infinity in row {row}; leave such rows out or fill them in")
        if values.size and np.abs(values).max() > np.sqrt(np.finfo(values.dtype).max) / 4e4:
            raise InputError(f"Input X has values whose squares exceed {values.dtype}; rescale its columns")
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        elif device == "cuda" and not torch.cuda.is_available():
            raise InputError("SLK: device='cuda', but this machine offers none; set device='cpu' or 'auto'")
        if not values.flags.writeable:
            values = values.copy()  # torch would warn
        rows = torch.from_numpy(values).to(device)
        if self.normalize == "l2":
            rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
        return rows

    def _clamp(self, labels: ArrayLike | None, rows: Rows) -> Clamp | None:
        if labels is None:
            return None
        known = np.asarray(labels)
        if known.shape != (len(rows.values),) or not np.issubdtype(known.dtype, np.integer):
            raise InputError(f"partial_labels must be {len(rows.values)} integers, -1 where unknown")
        if known.size and not -1 <= known.min() <= known.max() < self.n_clusters:
            raise InputError(f"partial_labels must be -1 or 0..{self.n_clusters - 1}, not {known.min()}..{known.max()}")
        tensor = torch.from_numpy(known.astype(np.int64)).to(rows.values.device)
        return tensor >= 0, tensor.clamp_min(0)

    def _rule(self, rows: Rows) -> Rule:
        if self.prototypes == "mean":
            return Means(rows, self.beta)
        if self.prototypes == "medoid":
            return Medoids(rows, self.beta)
        if self.prototypes == "byproduct":
            return ByProductModes(rows, self.bandwidth_**2, self.beta, self.safeguard)
        return Modes(rows, self.bandwidth_**2, self.beta)

    def _best(self, energies: Tensor, labels: Tensor, sound: Tensor) -> int:
        """The start of most clusters, and then best by `select`: the first of those whose difference is rounding."""
        ones = torch.ones_like(labels, dtype=torch.float64)
        sizes = torch.zeros(len(labels), self.n_clusters, device=labels.device).double().scatter_add_(1, labels, ones)
        clusters = (sizes > 0).sum(dim=1)
        sound = sound & (clusters == clusters.max()) if sound.any() else clusters == clusters.max()
        if self.select == "information":
            energies = energies - torch.special.entr(sizes / labels.shape[1]).sum(dim=1) * labels.shape[1]
        lowest = torch.where(sound, energies, torch.inf).min()
        rounding = 1e-9 if self._fitted.values.dtype == torch.float64 else 1e-5
        return int((sound & (energies <= lowest + rounding * lowest.abs())).int().argmax())

    def _keep(self, found: Trials, rule: Rule, fitted: Rows) -> None:
        """Take the best start."""
        self._fitted = fitted
        labels = found.labels
        weights = torch.full((len(labels),), float(self.weight), device=labels.device)
        energies = discrete_energy(rule.cost(found.prototypes), labels, self.graph_, weights)
        sound = found.outcome != Outcome.EMPTIED
        if self.on_empty == "error" and not sound.all():
            raise InputError(
                f"SLK: a cluster lost all its points from {int((~sound).sum())} of {len(sound)} starts; "
                "set fewer n_clusters, a smaller weight, or on_empty='reseed'"
            )
        best = self._best(energies, labels, sound)
        self.labels_ = labels[best].cpu().numpy()
        self.assignments_ = found.assignments[best].contiguous().cpu().numpy()
        self.n_empty_ = self.n_clusters - len(np.unique(self.labels_))
        self.objective_, self.relaxed_objective_ = float(energies[best]), float(found.objective[best])
        self.start_objectives_ = energies.cpu().numpy()
        trace = found.trace[:, best].cpu().numpy()
        self.objective_trace_ = trace[~np.isnan(trace)]
        self.n_iter_, self.n_reseeded_ = int(found.iterations[best]), int(found.reseeded[best])
        self.converged_ = bool(found.outcome[best] == Outcome.CONVERGED)
        centres = found.prototypes[best]
        if self.prototypes in ("byproduct", "medoid"):
            indices = fitted.places(centres)
            self.mode_indices_ = indices.cpu().numpy()
        centres = centres if fitted.origin is None else centres + fitted.origin
        if self.prototypes in ("byproduct", "medoid"):
            centres = torch.where((indices >= 0)[:, None], fitted.values[indices], centres)
        self.cluster_centers_ = centres.cpu().numpy()
        if self.n_empty_:
            warnings.warn(
                f"{self.n_empty_} of {self.n_clusters} clusters have no points; try a smaller weight, fewer clusters "
                "or more starts",
                ConvergenceWarning,
                stacklevel=3,
            )
