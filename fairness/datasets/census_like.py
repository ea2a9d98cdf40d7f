"""Generated points with the size and group proportions of the US census of 1990, for use without that file."""

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
