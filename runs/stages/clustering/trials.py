"""All trials of a method on points, with their results and their agreement with the classes."""

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from clustering.evaluation.protocol import ACCURACY, SCORES, Selection, chooses, random_state, schedule, scores
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress
from clustering.methods import with_known
from runs.config.cluster import ClusterConfig
from runs.stages.clustering.results import Trials

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels
    from clustering.evaluation.known_links import KnownLinks
    from runs.stages.clustering.shared_graphs import SharedGraphs

AT_ONCE = 20  # largest number of trials fitted together


def known_labels(config: ClusterConfig, data: "Dataset") -> "KnownLabels | None":
    """Return the labels that are known according to a config; None if it has no such key.

    Raises:
        InputError: as `clustering.evaluation.known_labels`.
    """
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


def known_links(config: ClusterConfig, data: "Dataset") -> "KnownLinks | None":
    """Return the pairs that are known according to a config; None if it has no such key.

    Raises:
        InputError: points without classes, or fewer pairs than requested.
    """
    from clustering.evaluation.known_links import drawn_links

    if config.links is None:
        return None
    if data.labels is None:
        raise InputError(f"links={config.links}: of these points no class is known; leave links out")
    return drawn_links(data.labels, config.links, config.seed)


def known_coarse(config: ClusterConfig, data: "Dataset", known: "KnownLabels | None") -> "NDArray[np.int64] | None":
    """Return the (N,) known coarse labels, -1 if unknown; None if the config has no such key.

    Raises:
        InputError: as `clustering.evaluation.known_labels.drawn_coarse_labels`.
    """
    from clustering.evaluation.known_labels import drawn_coarse_labels

    if config.coarse is None:
        return None
    labelled = np.zeros(data.values.shape[0], dtype=bool) if known is None else known.known
    return drawn_coarse_labels(data, list(map(str, config.coarse)), labelled, config.seed)


def known_to_method(config: ClusterConfig, data: "Dataset") -> "KnownLabels | None":
    """Return the known labels of a config, with those implied by its known pairs; None if no labels are known.

    Raises:
        InputError: as `known_labels` and `known_links`, or if the labels of all points are implied.
    """
    from clustering.evaluation.known_links import with_implied_labels

    known, links = known_labels(config, data), known_links(config, data)
    return known if known is None or links is None else with_implied_labels(known, links)


def told_points(known: "KnownLabels | None", coarse: "NDArray[np.int64] | None" = None) -> "NDArray[np.bool_] | None":
    """Return the (N,) mask of points with known class or coarse label; None if there are none.

    Points with known class always have a coarse label if coarse labels are given.
    """
    if coarse is not None:
        return np.asarray(coarse >= 0)
    return None if known is None else known.known


def fit_all(
    config: ClusterConfig,
    selection: Selection | None,
    data: "Dataset",
    known: "KnownLabels | None",
    graphs: "SharedGraphs",
    clusters: int,
    progress: Progress,
    name: str,
    *,
    given: Mapping[str, Any] | None = None,
    take: Callable[[Any], object] | None = None,
) -> Trials:
    """Fit all trials and return them with their results. Convergence warnings of single trials are ignored, since
    the results show convergence.

    Args:
        selection: the trials from which labels select.
        known: labels given to the method.
        clusters: number of clusters K.
        name: name of the progress bar.
        given: additional arguments of `fit`.
        take: function called with every fitted estimator.
    """
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    from clustering.sweeps import check_takes, fit_trials
    from clustering.trials import TOGETHER

    estimator = with_known(told(config), n_clusters=clusters, device=config.device.partition(":")[0])
    links, coarse, options = known_links(config, data), known_coarse(config, data, known), dict(given or {})
    for parameter, there in (("partial_labels", known), ("must_link", links), ("coarse_labels", coarse)):
        if there is not None:
            check_takes(estimator, parameter)
    options |= ({} if links is None else links._asdict()) | ({} if coarse is None else {"coarse_labels": coarse})
    selection = selection if data.labels is not None else None
    seeded = "random_state" in estimator.get_params()
    planned = schedule(config.fits, selection, seeded=seeded)
    numbered: list[dict[str, Any]] = [{}, *map(dict, selection.settings if selection else ())]
    graph_of = functools.cache(lambda i: graphs.of(clone(estimator).set_params(**numbered[i]), config.device))
    at_once = 1
    if hasattr(estimator, "trials"):  # as many as the method fits at once, so that the progress bar moves often
        at_once = max(1, min(AT_ONCE, TOGETHER // (data.values.shape[0] * clusters)))
    if hasattr(estimator, "require_memory"):
        estimator.require_memory(data.values, starts=at_once)
    rows: list[dict[str, Any]] = []
    with progress.track(name, len(planned)) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _, same in groupby(planned, key=lambda trial: id(graph_of(trial.setting))):
            alike = list(same)
            graph = graph_of(alike[0].setting)
            for some in (alike[first : first + at_once] for first in range(0, len(alike), at_once)):
                seed_of = {trial: random_state(config.seed, trial.start) for trial in some}
                grid = [
                    numbered[trial.setting] | ({"random_state": seed_of[trial]} if seeded else {}) for trial in some
                ]
                since, labels = time.perf_counter(), None if known is None else known.labels
                fitted = fit_trials(
                    estimator, data.values, seeds=[0], grid=grid, graph=graph, partial_labels=labels, given=options
                )
                each = (time.perf_counter() - since) / len(some)
                for model in fitted:
                    if take is not None:
                        take(model)
                    rows.append(_facts(model, graph.seconds if graph else 0.0, each))
                advance(len(some))
    labels = np.stack([row.pop("labels") for row in rows])
    own = [row.pop("own") for row in rows]
    arrays: dict[str, Any] = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    trials = Trials(
        settings=tuple(numbered),
        setting=np.array([trial.setting for trial in planned]),
        start=np.array([trial.start for trial in planned]),
        seeds=np.array([random_state(config.seed, trial.start) for trial in planned]),
        given=np.array([trial.given for trial in planned]),
        tried=np.array([trial.tried for trial in planned]),
        labels=labels.astype(np.min_scalar_type(int(labels.max()) if labels.min() >= 0 else int(-labels.max() - 1))),
        **arrays,
        **judged(labels, data, known, selection, config.seed, coarse=coarse),
    )
    return dataclasses.replace(trials, **own[trials.chosen])


def judged(
    labels: Any,
    data: "Dataset",
    known: "KnownLabels | None",
    selection: Selection | None = None,
    seed: int = 0,
    *,
    coarse: "NDArray[np.int64] | None" = None,
) -> dict[str, Any]:
    """Return scores of each trial's agreement with the classes.

    The scores are computed on all points without given class or coarse label; points with which the features were
    learned are excluded, too. If known labels name all clusters, the accuracy without matching is included. The result
    is empty if the classes are unknown or no points are left.

    Args:
        labels: (T, N) clusters.
        selection: the selection by labels; adds the scores `validation` and `held_out`.
        seed: seed of the selection.
        coarse: (N,) coarse labels given to the method, -1 if unknown.
    """
    masks = [mask for mask in (told_points(known, coarse), data.told) if mask is not None]
    others = ~np.any(masks, axis=0) if masks else np.ones(labels.shape[1], dtype=bool)
    if data.labels is None or not others.any():
        return {}
    true = data.labels

    def each(rows: Any) -> dict[str, Any]:
        found = [scores(trial[rows], true[rows]) for trial in labels]
        return {name: np.array([one[name] for one in found]) for name in SCORES}

    found: dict[str, Any] = {"scores": each(others)}
    if known is not None and known.names_all:
        found["scores"][ACCURACY] = (labels[:, others] == true[others]).mean(axis=1)
    if known is None and selection is not None:
        choosing = chooses(len(true), selection.share, seed)
        found |= {"validation": each(choosing & others)["acc_hungarian"], "held_out": each(~choosing & others)}
    return found


def _facts(model: Any, graph_seconds: float, spent: float) -> dict[str, Any]:
    """Return the results of a fitted estimator. If it does not report its phases, the whole time counts as
    optimisation.

    Raises:
        InputError: it has no labels_.
    """
    graph, *others = getattr(model, "seconds_", (0.0, np.nan, spent))
    if not hasattr(model, "labels_"):
        kind = type(model)
        raise InputError(
            f"method {kind.__module__}:{kind.__qualname__} has no labels_ after fit; give a class of your own whose "
            "fit sets them"
        )
    labels, assignments = np.asarray(model.labels_), getattr(model, "assignments_", None)
    objective = float(getattr(model, "objective_", getattr(model, "inertia_", np.nan)))
    return {
        "labels": labels,
        "objective": objective,
        "criterion": float(getattr(model, "criterion_", objective)),
        "clusters": len(np.unique(labels[labels >= 0])),
        "iterations": int(getattr(model, "n_iter_", None) or 0),
        "seconds": (graph + graph_seconds, *others),
        "own": {
            "confidence": None if assignments is None else np.asarray(assignments).max(axis=1).astype(np.float32),
            **{name: getattr(model, f"{name}_", None) for name in ("mode_indices", "mode_movements", "eigengaps")},
        },
    }
