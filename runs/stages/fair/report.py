"""Results of fitted estimators, of this project or of a plug-in, as the arrays stored with a run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.stages.fair.results import TradeOff


def trade_off_of(fitted: Sequence[Any], unfair: float, groups: Mapping[str, Any]) -> TradeOff:
    """Return the results of fitted estimators, one per weight.

    Args:
        fitted: estimators by increasing weight.
        unfair: objective of the unfair method; NaN if there is none.
        groups: group of every point, by attribute.

    Raises:
        InputError: an estimator has no labels 0..K-1.
    """
    for model in fitted:
        _require_report(model, groups)
    labels = np.stack([np.asarray(model.labels_) for model in fitted])
    first = fitted[0]
    history = [_history(model, step) for step, model in enumerate(fitted)]
    return TradeOff(
        weights=np.array([getattr(model, "fairness_weight_", np.nan) for model in fitted], dtype=np.float64),
        labels=labels.astype(np.min_scalar_type(int(labels.max()))),
        objective=np.array([_objective(model) for model in fitted], dtype=np.float64),
        fairness_error=np.array([model.fairness_error_ for model in fitted]),
        soft_error=np.array([getattr(model, "soft_fairness_error_", np.nan) for model in fitted]),
        balance_min=np.array([model.balance_min_ for model in fitted]),
        balance_mean=np.array([model.balance_mean_ for model in fitted]),
        group_counts=np.stack([model.group_counts_ for model in fitted]),
        group_names=np.array(first.group_labels_, dtype=np.str_),
        attributes=first.group_attributes_,
        target=np.asarray(first.target_, dtype=np.float64),
        seconds=np.array([float(sum(model.seconds_)) for model in fitted]),
        iterations=np.array([getattr(model, "n_iter_", 0) for model in fitted]),
        converged=np.array([_converged(model) for model in fitted]),
        unfair_objective=np.array(unfair),
        history_objective=np.concatenate([rows[:, 0] for rows in history]),
        history_weight=np.concatenate([rows[:, 1] for rows in history]),
        history_step=np.concatenate([rows[:, 2] for rows in history]).astype(np.int64),
    )


def _require_report(model: Any, groups: Mapping[str, Any]) -> None:
    """Add the attributes of a fair clustering, computed from the labels, to an estimator that has only labels.

    Raises:
        InputError: it has no labels 0..K-1.
    """
    if hasattr(model, "group_labels_"):
        return
    from fairness.groups import groups_of
    from fairness.reporting import keep_fairness

    labels = np.asarray(getattr(model, "labels_", ()))
    clusters = getattr(model, "n_clusters", math.inf)  # some methods determine the number of clusters themselves
    if labels.ndim != 1 or not len(labels) or labels.min() < 0 or labels.max() >= clusters:
        kind = type(model)
        raise InputError(
            f"method {kind.__module__}:{kind.__qualname__} must have labels_ 0..n_clusters-1 after fit; give a class "
            "whose fit sets them"
        )
    keep_fairness(model, labels, groups_of(groups, len(labels)))


def _objective(model: Any) -> float:
    return float(getattr(model, "objective_", getattr(model, "inertia_", math.nan)))


def _history(model: Any, step: int) -> NDArray[np.float64]:
    """Return the (U, 3) minimised objective, weight and step of each update."""
    rows: Any = getattr(model, "history_", ())
    if len(rows) and hasattr(rows[0], "objective"):
        found = [(row.objective, row.weight) for row in rows]
    else:
        weight = getattr(model, "fairness_weight_", np.nan)
        found = [(value, weight) for value in np.asarray(rows, dtype=np.float64).ravel()]
    return np.array([(*pair, step) for pair in found], dtype=np.float64).reshape(-1, 3)


def _converged(model: Any) -> bool:
    """Return whether the estimator stopped before its maximum number of iterations; always true without iterations."""
    if hasattr(model, "converged_"):
        return bool(model.converged_)
    most = getattr(model, "max_iter", None)
    return most is None or getattr(model, "n_iter_", 0) < most
