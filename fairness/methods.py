"""Fair clustering methods by name. To add one, write a file with an estimator and add a line here.

A method is an estimator with the scikit-learn interface, a method `fit(X, *, sensitive_features=...)`, and the fitted
attribute `labels_`. If it has `path(X, weights, *, sensitive_features=...)`, that returns one fitted estimator per
weight. If `fit` does not accept `sensitive_features`, the method ignores the groups, and its fairness is measured all
the same. The attribute or parameter `kind` names the quantity in `objective_`, see `kind_of`.
"""

from typing import Any

import clustering.methods
from clustering.foundation.plugins import Plugins

METHODS = Plugins(
    kind="method",
    table={
        "fair_kmeans": "fairness.fair_kmeans:FairKMeans",
        "fair_kmedian": "fairness.fair_kmeans:FairKMedian",
        "fair_ncut": "fairness.fair_ncut:FairNcut",
        "backurs": "fairness.rivals.backurs:Backurs",
        "bera": "fairness.rivals.bera:Bera",
        "chierichetti": "fairness.rivals.chierichetti:Chierichetti",
        "fair_alignment": "fairness.rivals.alignment:FairAlignment",
        "fair_lloyd": "fairness.rivals.fair_lloyd:FairLloyd",
        "kleindessner": "fairness.rivals.kleindessner:Kleindessner",
    },
    group="transduce.fair_methods",
)
DECIDED = (*clustering.methods.DECIDED, "fairness_weight")
"""Parameters that are set for a run rather than by the method."""
UNFAIR = {"kmeans": "fair_kmeans", "kmedian": "fair_kmedian", "ncut": "fair_ncut"}
"""Objectives, and for each the method that minimises it without fairness at weight 0."""


def kind_of(estimator: Any) -> str:
    """Which quantity the `objective_` of an estimator is: its parameter or attribute `kind`, "kmeans", "kmedian" or
    "ncut".

    Without `kind` it is the name of the class, so that the objective is not compared with that of any other method.
    """
    return str(getattr(estimator, "kind", None) or type(estimator).__name__)
