"""All trials of a method on points, with their results and their agreement with the classes."""

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clustering.evaluation.protocol import ACCURACY, SCORES, Selection, Trial, chooses, random_state, schedule, scores
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress
from clustering.methods import arranged, with_known
from runs.config.cluster import ClusterConfig
from runs.stages.clustering.results import Trials
from runs.stages.lineage import cluster_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels, KnownLinks
    from runs.stages.clustering.shared_graphs import SharedGraphs


class Known(NamedTuple):
    """What a method is told of the classes of N points, each None if it is nothing."""

    labels: "KnownLabels | None" = None  # labels of some points, with those implied by pairs
    links: "KnownLinks | None" = None  # pairs of points of one class, and of two
    coarse: "NDArray[np.int64] | None" = None  # (N,) coarse labels, -1 if unknown
    # (N,) mask of the points with a label or coarse label, which are not judged
    told: "NDArray[np.bool_] | None" = None
    clusters: int = 0  # number of clusters K; 0 if it is not settled yet

    @property
    def partial(self) -> "NDArray[np.int64] | None":
        """(N,) labels, -1 if unknown; None if no label is known."""
        return None if self.labels is None else self.labels.labels


def known_of(config: ClusterConfig, data: "Dataset") -> Known:
    """Return what a config tells its method of points; raises InputError if the points cannot give it."""
    from clustering.evaluation.known_labels import drawn_coarse_labels, drawn_links, with_implied_labels

    labels, links, coarse = known_labels(config, data), None, None
    if config.links is not None:
        if data.labels is None:
            raise InputError(f"links={config.links}: of these points no class is known; leave links out")
        links = drawn_links(data.labels, config.links, config.seed)
        labels = labels if labels is None else with_implied_labels(labels, links)
    told = None if labels is None else labels.known
    if config.coarse is not None:  # of the points with a label, too
        labelled = np.zeros(data.values.shape[0], dtype=bool) if told is None else told
        coarse = drawn_coarse_labels(data, list(map(str, config.coarse)), labelled, config.seed)
        told = np.asarray(coarse >= 0)
    return Known(labels, links, coarse, told)


def known_labels(config: ClusterConfig, data: "Dataset") -> "KnownLabels | None":
    """Return the labels that are drawn or read for a config; None if it has no such key."""
    from clustering.evaluation.known_labels import drawn_labels, read_labels

    asked = config.asked_labels()
    if asked is None:
        return None
    if isinstance(asked, str):
        return read_labels(asked, data)
    if isinstance(asked, int):
        return drawn_labels(data, asked, config.seed, config.wrong)
    # A share is drawn from all points, not equally by class: small classes may have too few points for that.
    return drawn_labels(data, max(1, round(asked * data.values.shape[0])), config.seed, config.wrong, evenly=False)


def told(config: ClusterConfig) -> Any:
    """Return the method of a config. If `smoothing` is None, label smoothing is set to the share of wrong labels."""
    method = config.method.build()
    if config.wrong and getattr(method, "smoothing", 0) is None and hasattr(method.network_objective(), "smoothing"):
        method.set_params(smoothing=config.wrong)
    return method


def fit_all(
    config: ClusterConfig,
    selection: Selection | None,
    data: "Dataset",
    known: Known,
    graphs: "SharedGraphs",
    progress: Progress,
    *,
    given: Mapping[str, Any] | None = None,
    take: Callable[[Any], object] | None = None,
) -> Trials:
    """Fit all trials and return them with their results. Convergence warnings of single trials are ignored, since
    the results show convergence.

    Args:
        selection: the trials from which labels select.
        known: what is told to the method, and the number of clusters.
        given: additional arguments of `fit`.
        take: function called with every fitted estimator.
    """
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    from clustering.methods import fitted

    estimator = with_known(told(config), n_clusters=known.clusters, device=config.device.partition(":")[0])
    options = dict(given or {}) | (known.links._asdict() if known.links else {})
    options |= {} if known.coarse is None else {"coarse_labels": known.coarse}
    selection, seeded = selection if data.labels is not None else None, "random_state" in estimator.get_params()
    planned = schedule(config.fits, selection, seeded=seeded)
    seeds = {trial: random_state(config.seed, trial.start) for trial in planned}
    settings: list[dict[str, Any]] = [{}, *map(dict, selection.settings if selection else ())]
    graph_of = functools.cache(
        lambda i: graphs.of(clone(estimator).set_params(**arranged(estimator, settings[i])), config.device)
    )
    rows: list[dict[str, Any]] = []
    with progress.track(cluster_name(config), len(planned)) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for trial in planned:
            graph, own = graph_of(trial.setting), {"random_state": seeds[trial]} if seeded else {}
            model = clone(estimator).set_params(**arranged(estimator, settings[trial.setting]), **own)
            since = time.perf_counter()
            fitted(model, data.values, graph=graph, partial_labels=known.partial, given=options)
            spent = time.perf_counter() - since
            if take is not None:
                take(model)
            rows.append(facts_of(model, graph.seconds if graph else 0.0, spent))
            advance()
    return trials_of(config, rows, planned, settings, data, known, selection)


def trials_of(
    config: ClusterConfig,
    rows: Sequence[dict[str, Any]],
    planned: Sequence[Trial],
    settings: Sequence[Mapping[str, Any]],
    data: "Dataset",
    known: Known,
    selection: Selection | None = None,
) -> Trials:
    """Return trials from the facts of their fitted estimators, with scores."""
    labels, own = np.stack([row.pop("labels") for row in rows]), [row.pop("own") for row in rows]
    columns: dict[str, Any] = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    for name in ("setting", "start", "given", "tried"):
        columns[name] = np.array([getattr(one, name) for one in planned])
    trials = Trials(
        settings=tuple(settings),
        seeds=np.array([random_state(config.seed, one.start) for one in planned]),
        labels=labels.astype(np.min_scalar_type(int(labels.max()) if labels.min() >= 0 else int(-labels.max() - 1))),
        **columns,
        **judged(labels, data, known, selection, config.seed),
    )
    return dataclasses.replace(trials, **own[trials.chosen])


def judged(
    labels: Any, data: "Dataset", known: Known, selection: Selection | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return scores of each trial's agreement with the classes.

    The scores are computed on all points of which the method was told nothing; points with which the features were
    learned are excluded, too. If known labels name all clusters, the accuracy without matching is included. The result
    is empty if the classes are unknown or no points are left.

    Args:
        labels: (T, N) clusters.
        selection: the selection by labels; adds the scores `validation` and `held_out`.
        seed: seed of the selection.
    """
    masks = [mask for mask in (known.told, data.told) if mask is not None]
    others = ~np.any(masks, axis=0) if masks else np.ones(labels.shape[1], dtype=bool)
    if data.labels is None or not others.any():
        return {}
    true = data.labels

    def each(rows: Any) -> dict[str, Any]:
        found = [scores(trial[rows], true[rows]) for trial in labels]
        return {name: np.array([one[name] for one in found]) for name in SCORES}

    found: dict[str, Any] = {"scores": each(others)}
    if known.labels is not None and known.labels.names_all:
        found["scores"][ACCURACY] = (labels[:, others] == true[others]).mean(axis=1)
    if known.labels is None and selection is not None:
        choosing = chooses(len(true), selection.share, seed)
        found |= {"validation": each(choosing & others)["acc_hungarian"], "held_out": each(~choosing & others)}
    return found


def facts_of(model: Any, graph_seconds: float = 0.0, spent: float = 0.0) -> dict[str, Any]:
    """Return the results of a fitted estimator. If it does not report its phases, the whole time counts as
    optimisation."""
    graph, *others = getattr(model, "seconds_", (0.0, np.nan, spent))
    if not hasattr(model, "labels_"):
        kind = f"{type(model).__module__}:{type(model).__qualname__}"
        raise InputError(f"method {kind} has no labels_ after fit; give a class of your own whose fit sets them")
    labels, assignments = np.asarray(model.labels_), getattr(model, "assignments_", None)
    objective = float(getattr(model, "objective_", getattr(model, "inertia_", np.nan)))
    own = {name: getattr(model, f"{name}_", None) for name in ("mode_indices", "mode_movements", "eigengaps")}
    if assignments is not None:
        own["confidence"] = np.asarray(assignments).max(axis=1).astype(np.float32)
    return {
        "labels": labels,
        "objective": objective,
        "criterion": float(getattr(model, "criterion_", objective)),
        "clusters": len(np.unique(labels[labels >= 0])),
        "iterations": int(getattr(model, "n_iter_", None) or 0),
        "seconds": (graph + graph_seconds, *others),
        "own": own,
    }
