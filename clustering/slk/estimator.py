"""Scalable Laplacian K-modes (Ziko, Granger and Ben Ayed, NeurIPS 2018) and its kin, as a scikit-learn estimator."""

import pickle
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from clustering.blocks import is_dask_array
from clustering.estimator_input import Device, checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import NARROWEST, Above, AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.row_search import nearest_to
from clustering.graphs.sparse_rows import rows_of
from clustering.numbering import numbered
from clustering.optimiser.alternation import Members, Outcome
from clustering.optimiser.centres import Rows
from clustering.optimiser.trials import TOGETHER
from clustering.seeding import first_seeds
from clustering.slk.fit import (
    Found,
    Neighbours,
    Winner,
    blurred,
    neighbours_of,
    race_starts,
    races,
    rule_of,
    run,
    tells_more,
    temperatures_of,
    weight_path,
)
from clustering.slk.memory import require_for_fit, require_for_trials
from clustering.slk.published import PublishedSLK
from clustering.starts import Select, entropy_of, warn_of_empty, warn_of_uniform
from clustering.sweeps import settings

_PRESETS = {"slk2018-ms": "mean_shift", "slk2018-bo": "byproduct", "journal-means": "mean"}
"""Prototypes of the published runs."""


class SLK(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters around prototypes, in which neighbours are drawn to the same cluster.

    Lowers, over labels one-hot in S and prototypes M (thesis eq. 2.4),

        E(S, M) = F(S, M) + weight sum_pq w_pq [l_p != l_q],        W the symmetric kNN graph of the points,

    by its relaxation over row-stochastic S, R(S, M) = F(S, M) + T <S, log S> - weight <S, W S>, in turns: bound steps
    for S, each of which is a sparse product and a softmax (`clustering.optimiser.descent`), and new prototypes. Within
    the steps for S, R never rises; with soft mode weights and a warm start it does not from one update of the
    prototypes to the next either, unless an empty cluster begins again elsewhere. Which start is best decides more than
    the weight does; docs/methods/clustering.md has the measurements behind the defaults.

    Memory: besides X, the graph and about a dozen N x K arrays, for each of `n_init` starts if they do not race.

    Parameters
    ----------
    n_clusters : K.
    prototypes : F and its prototypes. "mean_shift": F = -sum_pk s_pk g(x_p, m_k), modes by mean-shift of the
        kernel g(x, m) = exp(-||x - m||^2 / (2 sigma^2)) (SLK-MS); "byproduct": the same F, modes the members with the
        best assignment, which are rows of X (SLK-BO), taken only where the density of their cluster is no lower;
        "mean": F = sum_pk s_pk ||x_p - m_k||^2 (SLK-Means), whose balance with the graph depends on the scale of X;
        "medoid": distances that are not squared, to rows of X.
    weight : lambda >= 0 of E above, per stored arc and both ways: half of what the papers' update calls lambda. Nothing
        keeps a large one from joining clusters.
    n_neighbors : k of the graph, the point itself not counted; N - 1 where there are fewer others.
    normalize : "l2": rows are divided by their length, zero rows stay; the papers do. None: as they are.
    init : "k-means++", or (K, D) first prototypes, then one start only.
    n_init : starts, of which one is the result, see `select`. They race (`clustering.slk.race`): all are updated three
        times, a quarter of them to the end, by a single mean-shift step unless prototypes are means; of the first few,
        unless labels are known, two clusters are joined and another parted as long as that is better. The best goes on,
        its sweeps warm. Of more than 16,384 points the race sees 8,192 with a graph of their own, unless labels are
        known or the graph is a matrix of one's own. With a `weight_path` there is no race: all go on to the end.
    random_state : seed of the starts.
    device : "cpu", "cuda", or "auto", which is cuda where there is one.
    symmetry : how arcs become W: "average" (W + W^T) / 2, "union", "mutual".
    bandwidth : sigma >= 1e-15; "estimate": sigma^2 is the mean squared distance to the neighbours in the graph (thesis
        section 2.4); "published": k / (k + 1) of that, as the public code has it.
    select : "energy": the start of lowest E, among those of most clusters. "information": of those within 0.04
        N of it the start of lowest R - 2 N H, with H the entropy of the clusters' shares in nats, which prefers even
        sizes among starts that are nearly as good.
    weight_path : shares of `weight`, below 1 and rising, that are gone through first, each from where the one before
        ended.
    mode_weights : what points weigh in the prototypes: their assignments, or 1 in the likeliest cluster.
    warm_start : S begins where it ended before the prototypes moved, so that R falls from update to update; False: at
        softmax of the unary cost (papers), which lets clusters move farther.
    temperature : T, the weight of the entropy in R; 1 in the papers. "auto": 3 weight d / K, d the mean degree of the
        graph, at most 1, and two thirds of that where assignments end blurred: far above it neighbours cannot agree on
        one of K clusters, and assignments end nearly uniform.
    on_empty : a cluster without points begins again at the point farthest from its prototype ("reseed", ten times at
        most), keeps its prototype ("keep"), and is left out of the result besides ("drop").
    max_iter, tol : updates of the prototypes at most; relative change of R at which they end.
    max_sweeps, sweep_tol : likewise of S between two updates.

    Attributes
    ----------
    labels_ : (N,) int, argmax of assignments_, ties to the lowest cluster.
    assignments_ : (N, K) S, rows sum to one; clusters are more certain the larger the weight.
    cluster_centers_ : (K, D) prototypes, on normalised rows if `normalize`.
    mode_indices_ : (K,) rows of X that are the prototypes, -1 where one is not ("byproduct" and "medoid" only).
    criterion_ : what `select` compares, lower is better, to choose among fits of several seeds likewise.
    objective_ : E. relaxed_objective_ : R.
    objective_trace_ : (updates,) R after each update of S at the last weight of the path.
    mode_movements_ : (updates, K) Euclidean distance of each prototype to the next, likewise; after the last update it
        is where the next step would have led.
    n_iter_ : updates of the prototypes, those of the path included.
    n_reseeded_ : empty clusters that began again. n_empty_ : clusters without points in the result, or left out of it.
    start_objectives_ : (n_init,) E of every start where it was left, of a sample times N / n, after a race of medoids
        with the F of modes; the spread tells how much the start decides.
    converged_ : whether it ended before max_iter.
    seconds_ : `clustering.foundation.timing.Seconds` of the fit; of `trials`, its share.
    bandwidth_ : sigma. temperature_ : T. graph_ : W. n_features_in_, feature_names_in_ : of scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        prototypes: Literal["mean", "mean_shift", "byproduct", "medoid"] = "mean_shift",
        weight: Annotated[float, AtLeast(0)] = 0.65,
        n_neighbors: Annotated[int, AtLeast(1)] = 5,
        normalize: Literal["l2"] | None = None,
        init: str | ArrayLike = "k-means++",
        n_init: Annotated[int, AtLeast(1)] = 48,
        random_state: Any = None,
        device: Device = "cpu",
        symmetry: Literal["average", "union", "mutual"] = "average",
        bandwidth: Literal["estimate", "published"] | Annotated[float, AtLeast(NARROWEST)] = "estimate",
        select: Select = "information",
        weight_path: Sequence[float] | None = None,
        mode_weights: Members = "soft",
        warm_start: bool = False,
        temperature: Literal["auto"] | Annotated[float, Above(0)] = "auto",
        on_empty: Literal["reseed", "keep", "drop"] = "reseed",
        max_iter: Annotated[int, AtLeast(1)] = 100,
        tol: Annotated[float, AtLeast(0)] = 1e-4,
        max_sweeps: Annotated[int, AtLeast(1)] = 50,
        sweep_tol: Annotated[float, AtLeast(0)] = 1e-4,
    ) -> None:
        self.n_clusters = n_clusters
        self.prototypes = prototypes
        self.weight = weight
        self.n_neighbors = n_neighbors
        self.normalize = normalize
        self.init = init
        self.n_init = n_init
        self.random_state = random_state
        self.device = device
        self.symmetry = symmetry
        self.bandwidth = bandwidth
        self.select = select
        self.weight_path = weight_path
        self.mode_weights = mode_weights
        self.warm_start = warm_start
        self.temperature = temperature
        self.on_empty = on_empty
        self.max_iter = max_iter
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.sweep_tol = sweep_tol

    @staticmethod
    def preset(name: str, **changes: Any) -> PublishedSLK:
        """The run of the public code, "slk2018-ms", "slk2018-bo" or "journal-means", with some parameters changed."""
        if name not in _PRESETS:
            raise InputError(f"unknown preset {name!r}; known: {', '.join(_PRESETS)}")
        return PublishedSLK(**{"prototypes": _PRESETS[name], **changes})

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, partial_labels: ArrayLike | None = None, graph: Any = None) -> "SLK":
        """Cluster the rows of X.

        Args:
            X: (N, D) float32 or float64, other numbers become float32. Finite. Scipy sparse except for medoids. Of a
                dask array the chunks of rows stay on the workers of the present `distributed.Client`, and labels_ and
                assignments_ are dask arrays; see docs/how_to/many-machines.md.
            y: ignored, with a warning unless `partial_labels` are given.
            partial_labels: (N,) int, known clusters 0..K-1 of some points, which keep them, and -1.
            graph: W, see `clustering.graphs.row_graph.given_graph`; built from X where None.

        Raises:
            InputError: a parameter, X, labels or graph that cannot be; fewer distinct points than clusters; less memory
                is free than it would need.
        """
        warn_if_labels_are_y(y, partial_labels)
        self._check()
        if is_dask_array(X):
            from clustering.blocks.slk import fit_blocks

            fit_blocks(self, X, partial_labels, graph)
            return self
        require_for_fit(self, X, graph, known=partial_labels is not None)
        rows = self._rows(X, reset=True)
        clamp = known_clusters(partial_labels, rows.values, self.n_clusters)
        near = neighbours_of(self, graph, rows)
        watch, seeds, spent = Stopwatch(), None, Seconds(0.0, 0.0, 0.0)
        if not races(self):
            seeds = first_seeds(self.init, rows, self.n_clusters, self.n_init, self.random_state, clamp)
            spent = Seconds(0.0, watch.lap(), 0.0)
        for temperature in temperatures_of(self, near.degree):
            won = None
            if seeds is None:
                won = race_starts(self, rows, near, clamp, temperature=temperature, whole=tells_more(graph))
                weights = [float(self.weight)]
                found = run(self, rows, near, won.prototypes, weights, clamp, temperature=temperature, raced=True)
            else:
                weights = [float(self.weight)] * len(seeds)
                found = run(self, rows, near, seeds, weights, clamp, temperature=temperature)
            best = int(found.ranking.order(rows.values.dtype)[0])
            last = self._keep(found, best, won, partial_labels)
            spent = Seconds(last.graph, spent.seeding + last.seeding, spent.optimise + last.optimise)
            if not blurred(self._entropy(), self.n_clusters):
                break
        self.seconds_ = spent
        self._warn(self._entropy())
        return self

    @shared_if_large
    def trials(
        self, X: ArrayLike, *, seeds: Sequence[int], grid: Sequence[Mapping[str, Any]] = ({},), graph: Any = None
    ) -> list["SLK"]:
        """Fitted clones for every setting of the grid with every seed, in that order.

        Each is what `fit` gives with these settings and random_state=seed. A graph is built once, and those that differ
        in nothing but weight and seed run together, as many as 2^24 assignments allow: from the start that won the race
        of each, or the only one. Several starts that do not race (`weight_path`) are one fit after the other.

        Args:
            X: as of `fit`.
            seeds: values of random_state.
            grid: parameters that differ from those of this estimator.
            graph: as of `fit`.

        Raises:
            InputError: as of `fit`.
        """
        models: list[SLK] = settings(self, seeds, grid)
        for model in models:
            model._check()
        self.require_memory(X, starts=len(models), graph=graph)
        read: dict[bytes, Rows] = {}
        built: dict[bytes, Neighbours] = {}
        for group in _alike(models):
            lead = group[0]
            if lead.n_init > 1 and isinstance(lead.init, str) and not races(lead):
                for model in group:
                    model.fit(X, graph=graph)
                continue
            seen = lead._told("normalize", "device")
            rows = read[seen] = read.get(seen) or lead._rows(X, reset=True)
            drawn = seen + lead._told("n_neighbors", "symmetry", "bandwidth")
            near = built[drawn] = built.get(drawn) or neighbours_of(lead, graph, rows)
            together = max(1, TOGETHER // (len(rows.values) * lead.n_clusters))
            for some in (group[first : first + together] for first in range(0, len(group), together)):
                lead._fit_together(some, rows, near, temperatures_of(lead, near.degree), whole=tells_more(graph))
                for model in some:
                    validate_data(model, X, reset=True, skip_check_array=True)
        return models

    def require_memory(self, X: ArrayLike, *, starts: int, graph: Any = None) -> None:
        """Nothing, if there is memory for so many `trials` of X.

        Raises:
            InputError: less is free than they would need.
        """
        require_for_trials(self, X, graph, trials=starts)

    def _fit_together(
        self, models: Sequence["SLK"], rows: Rows, near: Neighbours, temperatures: Sequence[float], *, whole: bool
    ) -> None:
        """Fit models that differ from this one in weight and seed at most, all of one start or of starts that race; at
        the first of the temperatures, and those that are blurred at the next ones."""
        watch, temperature = Stopwatch(), temperatures[0]
        raced = [model for model in models if races(self)]
        won = [race_starts(model, rows, near, None, temperature=temperature, whole=whole) for model in raced]
        if won:
            starts = torch.cat([winner.prototypes for winner in won])
        else:
            seeds = {model.random_state for model in models}
            first = {seed: first_seeds(self.init, rows, self.n_clusters, 1, seed) for seed in seeds}
            starts = torch.cat([first[model.random_state] for model in models])
        weights, seeding = [float(model.weight) for model in models], watch.lap()
        found = run(self, rows, near, starts, weights, temperature=temperature, seeding=seeding, raced=bool(won))
        for trial, model in enumerate(models):
            model._keep(found.of(trial), 0, won[trial] if won else None)
        again = [model for model in models if blurred(model._entropy(), self.n_clusters)] if temperatures[1:] else []
        for model in models:
            if model not in again:
                model._warn(model._entropy())
        if again:
            self._fit_together(again, rows, near, temperatures[1:], whole=whole)

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
        rows = self._rows(X, reset=False)
        centres = torch.from_numpy(self.cluster_centers_).to(rows.values.device, rows.values.dtype)
        rule = rule_of(self, rows, self.bandwidth_**2)
        logits = -rule.cost((centres if rows.origin is None else centres - rows.origin)[None])[0]
        if by == "graph" and self.weight > 0:
            if len(self._fitted.values) == 0:
                raise InputError("a model of a dask.array keeps no rows of it here; predict with by='prototypes'")
            fitted, new = self._fitted.values, rows.values
            if rows.origin is not None:
                fitted, new = fitted - rows.origin, new - rows.origin
            near = nearest_to(fitted, new, self.n_neighbors)
            assignments = torch.from_numpy(self.assignments_).to(logits)
            logits += 2 * self.weight * assignments[near].sum(dim=1).T
        return logits.max(dim=0).indices.cpu().numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.prototypes != "medoid"
        return tags

    def _check(self) -> None:
        validate_signature(self)
        weight_path(self)

    def _told(self, *names: str) -> bytes:
        """The values of these parameters, to be compared."""
        return pickle.dumps([getattr(self, name) for name in names])

    def _rows(self, X: ArrayLike, *, reset: bool) -> Rows:
        """Rows of X, counted from their mean where that is far from zero."""
        accept = self.prototypes != "medoid"  # which needs whole clusters
        values = checked_rows(self, X, reset=reset, normalize=self.normalize, device=self.device, accept_sparse=accept)
        return rows_of(values) if reset else rows_of(values, self._fitted)

    def _keep(self, found: Found, best: int, won: Winner | None, known: ArrayLike | None = None) -> Seconds:
        """Take the best start, which may have won a race before; the seconds that it took."""
        trials, fitted = found.trials, found.rule.rows
        self._fitted, self.graph_, self.bandwidth_ = fitted, found.near.graph, found.near.variance**0.5
        self.temperature_ = found.temperature
        energies, seconds = found.ranking.energies.cpu().numpy(), found.seconds
        self.start_objectives_ = energies if won is None else won.energies
        if won is not None:
            seconds = Seconds(seconds.graph, won.seeding, won.racing + seconds.optimise)
        self.seconds_ = seconds
        self.objective_, self.relaxed_objective_ = float(energies[best]), float(trials.objective[best])
        self.criterion_ = float(found.ranking.criteria[best])
        trace = trials.trace[:, best]
        taken = ~torch.isnan(trace)
        self.objective_trace_ = trace[taken].cpu().numpy()
        self.n_iter_, self.n_reseeded_ = int(trials.iterations[best]), int(trials.reseeded[best])
        self.converged_ = bool(trials.outcome[best] == Outcome.CONVERGED)
        _, order = numbered(self, trials.labels[best].cpu().numpy(), known)
        assignments, centres = trials.assignments[best][:, order], trials.prototypes[best][order]
        self.mode_movements_ = trials.movements[taken, best].cpu().numpy()[:, order]
        labels = assignments.mT.max(dim=0).indices
        used = torch.bincount(labels, minlength=self.n_clusters) > 0
        self.n_empty_ = int((~used).sum())
        if self.n_empty_ and self.on_empty == "drop":
            assignments, centres, labels = assignments[:, used], centres[used], (used.cumsum(0) - 1)[labels]
            assignments = assignments / assignments.sum(dim=1, keepdim=True)
            self.mode_movements_ = self.mode_movements_[:, used.cpu().numpy()]
        self.labels_ = labels.cpu().numpy()
        self.assignments_ = assignments.contiguous().cpu().numpy()
        exact = centres if fitted.origin is None else centres + fitted.origin
        if self.prototypes in ("byproduct", "medoid"):
            indices = fitted.places(centres)
            self.mode_indices_ = indices.cpu().numpy()
            exact = torch.where((indices >= 0)[:, None], fitted.values[indices], exact)
        self.cluster_centers_ = exact.cpu().numpy()
        return seconds

    def _entropy(self) -> float:
        """Mean entropy of the assignments, in nats."""
        return entropy_of(torch.from_numpy(self.assignments_)) / len(self.assignments_)

    def _warn(self, entropy: float) -> None:
        """Of assignments of this mean entropy, and of clusters without points."""
        remedy = "a lower temperature, or a bandwidth of the scale of the clusters where some points lie far away"
        warn_of_uniform(entropy, self.n_clusters, stacklevel=5, remedy=remedy)
        if self.on_empty != "drop":
            remedy = "a smaller weight, fewer clusters or more starts"
            if self.n_neighbors * self.n_clusters > len(self.labels_):  # neighbours are of several clusters
                remedy = f"n_neighbors below {self.n_neighbors}, {remedy}"
            warn_of_empty(self.n_empty_, self.n_clusters, stacklevel=5, remedy=remedy)


def _alike(models: Sequence[SLK]) -> list[list[SLK]]:
    """The models that differ in nothing but weight and seed, together; in seed alone where the temperature follows the
    weight."""
    names = sorted(set(SLK().get_params()) - {"weight", "random_state"})
    groups: dict[bytes, list[SLK]] = {}
    for model in models:
        groups.setdefault(model._told(*names, *["weight"] * (model.temperature == "auto")), []).append(model)
    return list(groups.values())
