"""Bounds on the sizes of clusters, checked against the known labels and links."""

import warnings

import numpy as np

from clustering.constraints import Constraints
from clustering.foundation.errors import InputError


def size_bounds(
    known: Constraints, clusters: int, min_share: float | None = None, max_share: float | None = None
) -> tuple[float, float]:
    """Minimum and maximum size of a cluster, as shares of the N points.

    None stands for the mean share, 1 / K. If neither is given and a larger share of points is known to be in one
    cluster, the bounds are the smallest and the largest share of a cluster among the labels, if every cluster has
    labels; otherwise they are widened as little as possible.

    Args:
        known: labels and links.
        clusters: K.
        min_share: minimum share of a cluster, in 0..1 / K.
        max_share: maximum share of a cluster, in 1 / K..1.

    Raises:
        InputError: the mean share is not between the bounds, or the bounds contradict labels or links.

    Warns:
        UserWarning: no bounds are given, and equal sizes contradict labels or links, or only some clusters have labels.
    """
    equal, points = 1 / clusters, len(known.groups)
    low, high = (equal if share is None else share for share in (min_share, max_share))
    if low > high or low > equal + 1e-9 or high < equal - 1e-9:
        raise InputError(
            f"min_share={low:g} and max_share={high:g} must enclose the mean share, 1 / {clusters} = {equal:g}"
        )
    unknown = int((known.labels < 0).sum())
    if not unknown:
        return low, high
    together = np.bincount(known.groups)
    largest, labelled = int(together.max()), np.bincount(known.labels[known.labels >= 0], minlength=clusters)
    too_many = largest > (high + 1e-9) * points
    if too_many and min_share is None and max_share is None:
        if labelled.all():
            shares = labelled / labelled.sum()
            low, high = float(shares.min()), max(float(shares.max()), largest / points)
        else:
            high = largest / points
            low = min((1 - high) / (clusters - 1), (int(labelled.min()) + unknown) / points)
        warnings.warn(
            f"{largest} of {points} points are known to be in one cluster, which is more than 1 / {clusters} of them: "
            f"the assumed cluster shares are {low:.3g} to {high:.3g}; set min_share and max_share",
            stacklevel=3,
        )
        return low, high
    if too_many:
        point = int((known.groups == together.argmax()).argmax())
        raise InputError(
            f"{largest} of {points} points are known to be in one cluster (that of point {point}), but a cluster has "
            f"at most {high * points:g}: raise max_share"
        )
    if min_share is None and max_share is None and labelled.any() and not labelled.all():
        warnings.warn(
            f"only some of the {clusters} clusters have labels, so equal cluster sizes are assumed; give "
            "labels of every cluster, or min_share and max_share",
            stacklevel=3,
        )
    least = int(labelled.argmin())
    if labelled[least] + unknown < (low - 1e-9) * points:
        raise InputError(
            f"cluster {least} has labels for {labelled[least]} of {points} points, and {unknown} points have no label, "
            f"but a cluster needs at least {low * points:g}: lower min_share"
        )
    return low, high
