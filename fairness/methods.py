"""Fair clustering methods by name. To add one: a file with an estimator, and a line here.

A method is an estimator of scikit-learn's kind with `fit(X, *, sensitive_features=...)`, after which it has `labels_`.
One with `path(X, weights, *, sensitive_features=...)` gives a fitted estimator for each weight; where `fit` takes no
`sensitive_features`, it is seen how fair a method is that knows of no groups. Its attribute or parameter `kind` says
what its `objective_` is, see `kind_of`.
"""

from typing import Any

import clustering.methods
from clustering.foundation.plugins import Plugins

METHODS = Plugins(
    kind="method",
    table={
        "fair_kmeans": "fairness.fair_kmeans:FairKMeans",
        "fair_kmedian": "fairness.fair_kmedian:FairKMedian",
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
DECIDED = (*clustering.methods.DECIDED, "fairness_weight", "max_error", "min_balance", "missing")
"""Parameters that whoever runs a method decides, and that are no part of it: a data set knows what it lacks."""
UNFAIR = {"kmeans": "fair_kmeans", "kmedian": "fair_kmedian", "ncut": "fair_ncut"}
"""Objectives, and the method that lowers each of them without fairness where its weight is 0."""


def kind_of(estimator: Any) -> str:
    """What an estimator's `objective_` is, as its parameter or attribute `kind` says: "kmeans", "kmedian" or "ncut".
    Without one it is its own name, which nothing else is compared with."""
    return str(getattr(estimator, "kind", None) or type(estimator).__name__)
