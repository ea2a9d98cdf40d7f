"""Fair clustering methods of other authors, one per file: `from fairness.rivals import Bera`.

All are estimators with the parameters and fitted attributes of `fairness.FairKMeans` that apply to the method, so that
one table can compare them. `objective_` is one of `fairness.objectives`, measured from the best prototypes of the
labels; quantities that a method optimises itself have attributes of their own. None of the methods can assign new
points.
"""

from clustering.foundation.lazy import lazy_names

# Module of each estimator.
RIVALS = {
    "Backurs": "fairness.rivals.backurs",
    "Bera": "fairness.rivals.bera",
    "Chierichetti": "fairness.rivals.chierichetti",
    "FairAlignment": "fairness.rivals.alignment",
    "FairLloyd": "fairness.rivals.fair_lloyd",
    "Kleindessner": "fairness.rivals.kleindessner",
}

__getattr__, __dir__ = lazy_names(__name__, RIVALS)
