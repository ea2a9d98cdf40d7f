"""All trials of a method on points, with their results and their agreement with the classes."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from clustering.evaluation.protocol import (
    ACCURACY,
    SCORES,
    Selection,
    Trial,
    chooses,
    lowest,
    random_state,
    schedule,
    scores,
)
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
    told = np.zeros(data.values.shape[0], dtype=bool) if known is None else known.known
    return drawn_coarse_labels(data, list(map(str, config.coarse)), told, config.seed)


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

    device = config.device.partition(":")[0]
    estimator = with_known(told(config), n_clusters=clusters, device=device)
    if known is not None:
        check_takes(estimator, "partial_labels")
    links = known_links(config, data)
    if links is not None:
        check_takes(estimator, "must_link")
    options = dict(given or {}) | ({} if links is None else links._asdict())
    coarse = known_coarse(config, data, known)
    if coarse is not None:
        check_takes(estimator, "coarse_labels")
        options["coarse_labels"] = coarse
    partial_labels = None if known is None else known.labels
    selection = selection if data.labels is not None else None
    planned = schedule(config.fits, selection, seeded="random_state" in estimator.get_params())
    settings = selection.settings if selection else ()
    numbered: list[dict[str, Any]] = [{}, *map(dict, settings)]
    at = [clone(estimator).set_params(**setting) for setting in numbered]
    at_once = 1
    if hasattr(estimator, "trials"):  # as many as the method fits at once, so that the progress bar moves often
        at_once = max(1, min(AT_ONCE, TOGETHER // (data.values.shape[0] * clusters)))
    if hasattr(estimator, "require_memory"):
        estimator.require_memory(data.values, starts=at_once)
    rows: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []  # for each start at the parameters of the config
    with progress.track(name, len(planned)) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for graph, some in _together(planned, lambda trial: graphs.of(at[trial.setting], config.device), at_once):
            points = [numbered[trial.setting] | _seed(estimator, config.seed, trial.start) for trial in some]
            since = time.perf_counter()
            fitted = fit_trials(
                estimator,
                data.values,
                seeds=[0],
                grid=points,
                graph=graph,
                partial_labels=partial_labels,
                given=options,
            )
            each = (time.perf_counter() - since) / len(some)
            for trial, model in zip(some, fitted, strict=True):
                if take is not None:
                    take(model)
                rows.append(_facts(model, graph.seconds if graph else 0.0, each))
                said += [_said(model)] if trial.given else []
            advance(len(some), **_lowest(rows, planned))
    labels = np.stack([row.pop("labels") for row in rows])
    arrays: dict[str, Any] = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    trials = Trials(
        settings=tuple(numbered),
        setting=np.array([trial.setting for trial in planned]),
        start=np.array([trial.start for trial in planned]),
        seeds=np.array([random_state(config.seed, trial.start) for trial in planned]),
        given=np.array([trial.given for trial in planned]),
        tried=np.array([trial.tried for trial in planned]),
        labels=labels.astype(np.min_scalar_type(int(labels.max()) if labels.min() >= 0 else int(-labels.max() - 1))),
        confidence=None,
        mode_indices=None,
        mode_movements=None,
        **arrays,
        **judged(labels, data, known, selection, config.seed, coarse=coarse),
    )
    return dataclasses.replace(trials, **said[int(trials.given[: trials.chosen].sum())])


def _lowest(rows: Sequence[Mapping[str, Any]], planned: Sequence[Trial]) -> dict[str, float]:
    """Return the objective of the start that would be chosen so far, for the progress bar; {} before the first
    start."""
    given = [row for row, trial in zip(rows, planned, strict=False) if trial.given]
    if not given:
        return {}
    criterion, objective, clusters = (
        np.array([row[name] for row in given]) for name in ("criterion", "objective", "clusters")
    )
    found = float(objective[lowest(criterion, objective, clusters, len(given[0]["labels"]))])
    return {} if np.isnan(found) else {"lowest_objective": found}


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
    told = told_points(known, coarse)
    if data.told is not None:
        told = data.told if told is None else told | data.told
    if data.labels is None or (told is not None and told.all()):
        return {}
    true, others = data.labels, np.ones(len(data.labels), dtype=bool) if told is None else ~told

    def each(rows: Any) -> dict[str, Any]:
        found = [scores(trial[rows], true[rows]) for trial in labels]
        return {name: np.array([one[name] for one in found]) for name in SCORES}

    if known is not None:
        if not known.names_all:
            return {"scores": each(others)}
        plain = np.array([float((trial[others] == true[others]).mean()) for trial in labels])
        return {"scores": each(others) | {ACCURACY: plain}}
    found: dict[str, Any] = {"scores": each(others)}
    if selection is not None:
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
    labels = np.asarray(model.labels_)
    objective = float(getattr(model, "objective_", getattr(model, "inertia_", np.nan)))
    return {
        "labels": labels,
        "objective": objective,
        "criterion": float(getattr(model, "criterion_", objective)),
        "clusters": len(np.unique(labels[labels >= 0])),
        "iterations": int(getattr(model, "n_iter_", None) or 0),
        "seconds": (graph + graph_seconds, *others),
    }


def _said(model: Any) -> dict[str, Any]:
    """Return confidence, prototypes and eigengaps of a fitted estimator, None where it has no such attribute."""
    assignments = getattr(model, "assignments_", None)
    return {
        "confidence": None if assignments is None else np.asarray(assignments).max(axis=1).astype(np.float32),
        "mode_indices": getattr(model, "mode_indices_", None),
        "mode_movements": getattr(model, "mode_movements_", None),
        "eigengaps": getattr(model, "eigengaps_", None),
    }


def _seed(estimator: Any, seed: int, start: int) -> dict[str, int]:
    """Return the random_state of a start; {} for a method without this parameter."""
    return {"random_state": random_state(seed, start)} if "random_state" in estimator.get_params() else {}


def _together(
    planned: Sequence[Trial], graph_of: Callable[[Trial], Any], at_once: int
) -> Iterator[tuple[Any, list[Trial]]]:
    """Yield batches of consecutive trials on the same graph, with that graph."""
    for _, same in groupby(planned, key=lambda trial: id(graph_of(trial))):
        trials = list(same)
        for first in range(0, len(trials), at_once):
            yield graph_of(trials[0]), trials[first : first + at_once]
