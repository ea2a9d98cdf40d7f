"""What every method of fair clustering is given: rows, and groups that can be in its clusters."""

import warnings
from collections.abc import Iterable
from typing import Any, Literal

from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from torch import Tensor

from clustering.estimator_input import Device, checked_rows, warn_of_y
from clustering.foundation.parameters import validate_signature
from fairness.groups import Groups, groups_of, smallest_group

SmallGroups = Literal["error", "keep"]
"""What to do where a group has fewer points than there are clusters."""

_OF_GROUPS = ("target", "intersectional", "numeric_bins", "missing")


def fit_input(estimator: Any, X: ArrayLike, sensitive_features: Any, **how: Any) -> tuple[Tensor, Groups]:
    """Check the parameters and the data of a fit.

    Args:
        estimator: with `n_clusters`, `normalize` and, where they matter, `small_groups`, `device` and those parameters
            of `fairness.groups.groups_of` that it lets a user choose.
        X: (N, D).
        sensitive_features: see `fairness.groups.groups_of`.
        how: the groups are made, where it is no parameter.

    Returns:
        (N, D) rows, divided by their length if the estimator says so, and the groups of the points.

    Raises:
        InputError: names the parameter or what is wrong with the data.
    """
    validate_signature(estimator)
    check_random_state(getattr(estimator, "random_state", None))
    device: Device = getattr(estimator, "device", "cpu")
    values = checked_rows(estimator, X, reset=True, normalize=estimator.normalize, device=device)
    return values, fit_groups(estimator, len(values), sensitive_features, **how)


def fit_groups(estimator: Any, points: int, sensitive_features: Any, **how: Any) -> Groups:
    """The groups of so many points, as `fit_input` has them."""
    chosen = {name: getattr(estimator, name) for name in _OF_GROUPS if hasattr(estimator, name)}
    groups = groups_of(sensitive_features, points, **chosen, **how)
    if getattr(estimator, "small_groups", "keep") == "error":
        smallest_group(groups, int(estimator.n_clusters), type(estimator).__name__)
    return groups


def warn_if_groups_are_y(y: Any, sensitive_features: Any) -> None:
    """Warn where a fit is given a y and no groups: it would be of one group, and perfectly fair whatever it finds."""
    warn_of_y(y, sensitive_features, "if these are groups, give fit(X, sensitive_features=...)")


def warn_if_one_group(estimator: Any, weights: Iterable[Any], groups: Groups, sensitive_features: Any) -> None:
    """Warn where fairness is asked for, by one of some values of `fairness_weight`, and there is one group alone: the
    result is that of the unfair method, and perfectly fair whatever it is."""
    asked = [weight for weight in weights if weight != 0]
    if groups.trivial and asked:
        lacking = "no sensitive_features are given"
        if sensitive_features is not None:
            lacking = f"sensitive_features has one group alone, {groups.labels()[0]!r}"
            if len(groups.attributes) > 1:
                lacking = "every attribute of sensitive_features has one group alone"
        remedy = "give fit(X, sensitive_features=...)" if sensitive_features is None else "give two groups or more"
        warnings.warn(
            f"{type(estimator).__name__}: {lacking}, so that every clustering counts as fair and fairness_weight="
            f"{asked[0]!r} changes nothing; {remedy}, or set fairness_weight=0",
            stacklevel=4,
        )
