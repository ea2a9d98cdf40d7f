"""Generated points with sensitive attributes: the synthetic sets of the thesis.

The synthetic sets are four blobs and two groups, where an unfair method recovers the groups.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import Validated
from fairness.datasets.dataset import FairDataset, Preprocess, preprocessed

RECIPE = 1  # increase it when other points would be generated


@dataclass(frozen=True)
class Synthetic(Validated):
    """400 points in four blobs of 100 with standard deviation 0.1; the groups of 200 are the lower and the upper blobs.

    Attributes:
        preprocess: how rows are scaled; division by their norm turns points into angles.
    """

    name: ClassVar[str] = "synthetic"
    clusters: ClassVar[int] = 2
    sizes: ClassVar[tuple[int, ...]] = (100, 100, 100, 100)
    upper: ClassVar[float] = 5.0
    deviation: ClassVar[float] = 0.1

    preprocess: Preprocess = "thesis"

    def source(self) -> str:
        return fingerprint(self.name, RECIPE)

    def read(self) -> FairDataset:
        from sklearn.datasets import make_blobs

        centres = [(1, 1), (2.1, 1), (1, self.upper), (2.1, self.upper)]
        values, blobs = make_blobs(
            list(self.sizes), centers=centres, cluster_std=self.deviation, random_state=1, shuffle=False
        )
        groups = np.where(blobs < 2, "lower", "upper")
        return FairDataset(preprocessed(values, self.preprocess), ("x", "y"), {"row": groups})


@dataclass(frozen=True)
class SyntheticUnequal(Synthetic):
    """400 points in blobs of 150, 150, 50 and 50 with standard deviation 0.13.

    The groups, of 300 and 100 points, are the lower and the upper blobs.

    Attributes:
        preprocess: how rows are scaled.
    """

    name: ClassVar[str] = "synthetic_unequal"
    sizes: ClassVar[tuple[int, ...]] = (150, 150, 50, 50)
    upper: ClassVar[float] = 3.5
    deviation: ClassVar[float] = 0.13
