"""Fitted attributes that all methods set from their labels."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairness.groups import Groups
from fairness.metrics import Fairness


def keep_fairness(estimator: Any, labels: Any, groups: Groups) -> Fairness:
    """Set the fitted attributes that describe the fairness of labels (N,), and warn of empty clusters.

    The attributes are labels_, fairness_error_, balance_min_, balance_mean_, group_counts_ (J, K), group_names_,
    target_ (J,), n_empty_ and absent_groups_, described in `fairness.fair_kmeans.FairKMeans`, and group_labels_ (J,),
    the names as text, and group_attributes_ (J,), the index of each group's attribute. If the estimator has no
    `n_clusters`, clusters that occur are counted.
    """
    clusters = int(getattr(estimator, "n_clusters", 1 + labels.max()))
    fairness = Fairness.of(groups.counts(labels, clusters), groups)
    estimator.labels_ = labels
    estimator.fairness_error_ = fairness.error
    balances = fairness.balance_min, fairness.balance_mean
    estimator.balance_min_, estimator.balance_mean_ = (np.nan, np.nan) if groups.trivial else balances
    estimator.group_counts_, estimator.group_names_ = fairness.counts, groups.names
    estimator.group_labels_, estimator.group_attributes_ = groups.labels(), groups.attribute_of
    estimator.target_ = groups.target
    estimator.n_empty_, estimator.absent_groups_ = fairness.empty, fairness.absent
    if fairness.empty:
        warnings.warn(
            f"{fairness.empty} of {clusters} clusters have no points; try fewer clusters, another weight "
            "or more starts",
            ConvergenceWarning,
            stacklevel=6,
        )
    return fairness
