"""What every method of fair clustering is given: rows, and groups that can be in its clusters."""

from typing import Any, Literal

from numpy.typing import ArrayLike
from torch import Tensor

from clustering.estimator_input import Device, checked_rows, warn_of_y
from clustering.parameters import validate_signature
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
