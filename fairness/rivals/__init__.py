"""Fair clustering by other authors, one method a file: `from fairness.rivals import Bera`.

All are estimators with the parameters and fitted attributes of `fairness.FairKMeans`, as far as they have a meaning for
the method, so that one table can hold all. Objectives are those of `fairness.objectives`, about the best prototypes of
the labels; what a method had in mind besides, its own attributes tell. None says where new points belong.
"""

from clustering.foundation.lazy import lazy_names

# Names and where they are.
RIVALS = {
    "Backurs": "fairness.rivals.backurs",
    "Bera": "fairness.rivals.bera",
    "Chierichetti": "fairness.rivals.chierichetti",
    "FairAlignment": "fairness.rivals.alignment",
    "FairLloyd": "fairness.rivals.fair_lloyd",
    "Kleindessner": "fairness.rivals.kleindessner",
}

__getattr__, __dir__ = lazy_names(__name__, RIVALS)
