"""What every method reports of its labels, under the same names."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from clustering.foundation.timing import Seconds
from clustering.numbering import numbered
from fairness.groups import Groups
from fairness.metrics import Fairness

_REMEDIES = {
    "argmax": "points lie between clusters; set rounding='flow' to keep counts of groups within one, or lower gap_tol",
    "flow": "counts are kept within one, which may be none where clusters are small; set fewer n_clusters",
}
"""Of labels that are less fair than the assignments, by how they were rounded."""


def keep_fairness(
    estimator: Any, labels: Any, groups: Groups, group_counts: NDArray[np.int64] | None = None
) -> Fairness:
    """Set the fitted attributes that tell how fair labels (N,) are; clusters without points are worth a warning. Of an
    estimator without `n_clusters` there are as many as have points.

    They are labels_, fairness_error_, balance_min_, balance_mean_, group_counts_ (J, K), group_names_, target_ (J,),
    n_empty_ and absent_groups_, of which `fairness.fair_kmeans.FairKMeans` says what they hold, and group_labels_ (J,),
    the names as text, and group_attributes_ (J,), the number of the attribute that each group is of.
    """
    clusters = int(getattr(estimator, "n_clusters", 1 + labels.max()))
    found = Fairness.of(groups.counts(labels, clusters) if group_counts is None else group_counts, groups)
    estimator.labels_ = labels
    estimator.fairness_error_ = found.error
    estimator.balance_min_, estimator.balance_mean_ = found.balance_min, found.balance_mean
    estimator.group_counts_, estimator.group_names_ = found.counts, groups.names
    estimator.group_labels_, estimator.group_attributes_ = groups.labels(), groups.attribute_of
    estimator.target_ = groups.target
    estimator.n_empty_, estimator.absent_groups_ = found.empty, found.absent
    if found.empty:
        warnings.warn(
            f"{found.empty} of {clusters} clusters have no points; try fewer clusters, another weight or more starts",
            ConvergenceWarning,
            stacklevel=5,
        )
    return found


def keep_labels(
    estimator: Any,
    labels: NDArray[np.int64],
    groups: Groups,
    objective: float,
    history: Any,
    seconds: Seconds,
    centres: NDArray[np.float64] | None = None,
) -> None:
    """Set the fitted attributes of a method that has no fairness weight.

    Args:
        estimator: whose they are.
        labels: (N,) 0..K-1.
        groups: of the points.
        objective: of the labels.
        history: what the method lowered, after each of its iterations.
        seconds: the fit took.
        centres: (K, D) of the clusters, `cluster_centers_`, where it has some.
    """
    labels, order = numbered(estimator, labels)
    if centres is not None:
        estimator.cluster_centers_ = centres[order]
    keep_fairness(estimator, labels, groups)
    estimator.objective_ = objective
    estimator.history_ = np.asarray(history, dtype=np.float64)
    estimator.n_iter_, estimator.seconds_ = max(1, len(estimator.history_)), seconds


def warn_if_parted(found: Fairness, soft_error: float, rounding: str) -> None:
    """Warn where labels are less fair than the assignments that they were rounded from, by "argmax" or "flow"."""
    if found.error - soft_error > 0.25 * soft_error + 0.01:
        lacking = f", of which {len(found.absent)} absent groups" if found.absent else ""
        warnings.warn(
            f"the labels' fairness error {found.error:.4g}{lacking} is above the assignments' {soft_error:.4g}: "
            f"{_REMEDIES[rounding]}",
            ConvergenceWarning,
            stacklevel=5,
        )
