"""Checks of the data and parameters, and seeds, that fair clustering methods share."""

import warnings
from collections.abc import Iterable
from typing import Any, Literal

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from clustering.estimator_input import Device, checked_rows, warn_of_y
from clustering.foundation.parameters import validate_signature
from clustering.foundation.streams import checked_generator
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds
from fairness.groups import Groups, groups_of, smallest_group

SmallGroups = Literal["error", "keep"]
"""How to treat a group with fewer points than there are clusters."""


def fit_input(estimator: Any, X: ArrayLike, sensitive_features: Any, **options: Any) -> tuple[Tensor, Groups]:
    """Check the parameters and the data of a fit.

    Args:
        estimator: has `n_clusters` and, if it supports them, `normalize`, `small_groups`, `device` and parameters of
            `fairness.groups.groups_of`.
        X: (N, D).
        sensitive_features: see `fairness.groups.groups_of`.
        options: arguments of `fairness.groups.groups_of` that are no parameters of the estimator.

    Returns:
        (N, D) rows, normalised if the estimator is set to, and the groups of the points.

    Raises:
        InputError: a parameter or the data is invalid.
    """
    validate_signature(estimator)
    checked_generator(getattr(estimator, "random_state", None))
    device: Device = getattr(estimator, "device", "cpu")
    values = checked_rows(estimator, X, reset=True, normalize=getattr(estimator, "normalize", None), device=device)
    of_groups = {name: getattr(estimator, name) for name in ("target", "intersectional") if hasattr(estimator, name)}
    groups = groups_of(sensitive_features, len(values), **of_groups, **options)
    if getattr(estimator, "small_groups", "keep") == "error":
        smallest_group(groups, int(estimator.n_clusters), type(estimator).__name__)
    return values, groups


def seeds_among(estimator: Any, values: NDArray[Any]) -> NDArray[Any]:
    """(T, K, D) seeds of the starts among rows (N, D), or the array `init`; all estimators with this random_state draw
    the same ones, see `clustering.seeding.first_seeds`."""
    rows = Rows.of(torch.from_numpy(values))
    seeds = first_seeds(estimator.init, rows, estimator.n_clusters, estimator.n_init, estimator.random_state)
    found: NDArray[Any] = rows.absolute(seeds).numpy()
    return found


def warn_if_groups_are_y(y: Any, sensitive_features: Any) -> None:
    """Warn if a fit receives y but no groups: it would see a single group and count as perfectly fair."""
    warn_of_y(y, sensitive_features, "if these are groups, use fit(X, sensitive_features=...)")


def warn_if_one_group(
    estimator: Any, weights: Iterable[Any], groups: Groups, sensitive_features: Any, stacklevel: int
) -> None:
    """Warn if a weight above 0 meets a single group: the result is that of the unfair method and counts as perfectly
    fair."""
    positive = [weight for weight in weights if weight != 0]
    if groups.trivial and positive:
        problem = "no sensitive_features are given"
        if sensitive_features is not None:
            problem = f"sensitive_features has a single group, {groups.labels()[0]!r}"
            if len(groups.attributes) > 1:
                problem = "every attribute of sensitive_features has a single group"
        remedy = "use fit(X, sensitive_features=...)" if sensitive_features is None else "pass two groups or more"
        warnings.warn(
            f"{type(estimator).__name__}: {problem}, so every clustering counts as fair and "
            f"fairness_weight={positive[0]!r} has no effect; {remedy}, or set fairness_weight=0",
            stacklevel=stacklevel,
        )
