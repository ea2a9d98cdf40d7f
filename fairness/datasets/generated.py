"""Generated points with sensitive attributes: the synthetic sets of the thesis, and points like those of the census.

The synthetic sets are four blobs and two groups, where an unfair method recovers the groups.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream
from fairness.datasets.dataset import FairDataset, Preprocess, preprocessed

RECIPE = 1  # increase it when other points would be generated
_SHARE = 1_191_601 / 2_458_285
_AT_ONCE = 1 << 18  # points generated at a time


@dataclass(frozen=True)
class Synthetic:
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

    def __post_init__(self) -> None:
        validate(self)

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


@dataclass(frozen=True)
class CensusLike:
    """A mixture of Gaussians of different sizes and spreads, some of which contain more of one of the two groups.

    Overall, the first group has 48.5 % of the points, as in the census.

    Attributes:
        points: number of points.
        dimensions: number of coordinates.
        components: number of mixture components.
        seed: seed of all random draws.
        preprocess: how rows are scaled.
    """

    name: ClassVar[str] = "census_like"
    clusters: ClassVar[int] = 20

    points: Annotated[int, AtLeast(1)] = 2_458_285
    dimensions: Annotated[int, AtLeast(1)] = 25
    components: Annotated[int, AtLeast(1)] = 30
    seed: Annotated[int, AtLeast(0)] = 0
    preprocess: Preprocess = "aaai"

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint(self.name, RECIPE)

    def read(self) -> FairDataset:
        drawn = stream(self.seed, "census_like")
        centres = drawn.normal(size=(self.components, self.dimensions)).astype(np.float32)
        spreads = drawn.uniform(0.3, 1.0, self.components).astype(np.float32)
        sizes = drawn.dirichlet(np.full(self.components, 2.0))
        shares = np.clip(_SHARE + drawn.normal(0, 0.2, self.components), 0.05, 0.95)
        shares = np.clip(shares + _SHARE - sizes @ shares, 0.02, 0.98)
        values = np.empty((self.points, self.dimensions), dtype=np.float32)
        groups = np.empty(self.points, dtype=np.int64)
        for first in range(0, self.points, _AT_ONCE):
            block = slice(first, min(first + _AT_ONCE, self.points))
            component = drawn.choice(self.components, block.stop - first, p=sizes)
            noise = drawn.standard_normal((len(component), self.dimensions), dtype=np.float32)
            values[block] = centres[component] + spreads[component, None] * noise
            groups[block] = drawn.random(len(component)) >= shares[component]
        names = tuple(f"x{i}" for i in range(self.dimensions))
        return FairDataset(preprocessed(values, self.preprocess), names, {"sex": groups})
