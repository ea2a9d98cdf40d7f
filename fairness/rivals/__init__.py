"""Fair clustering by other authors, one method a file: `from fairness.rivals import Bera`.

All are estimators with the parameters and fitted attributes of `fairness.FairKMeans`, as far as they have a meaning for
the method, so that one table can hold all. Objectives are those of `fairness.objectives`, about the best prototypes of
the labels; what a method had in mind besides, its own attributes tell. None says where new points belong.
"""

import importlib
from typing import Any

# Names and where they are.
RIVALS = {
    "Backurs": "fairness.rivals.backurs",
    "Bera": "fairness.rivals.bera",
    "Chierichetti": "fairness.rivals.chierichetti",
    "FairAlignment": "fairness.rivals.alignment",
    "FairLloyd": "fairness.rivals.fair_lloyd",
    "Kleindessner": "fairness.rivals.kleindessner",
}


def __getattr__(name: str) -> Any:
    """Estimators are imported when they are asked for: they need torch and scikit-learn, other parts do not."""
    if name not in RIVALS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(RIVALS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *RIVALS])
