"""Data sets with groups for tests: more groups than some methods take, and one that does not say what to look for; and
a method that finds one cluster."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

from fairness.datasets.dataset import FairDataset


@dataclass(frozen=True)
class Nameless:
    """Thirty points of two groups."""

    name: ClassVar[str] = "nameless"
    groups: ClassVar[int] = 2

    def source(self) -> str:
        return f"tiny fair points of {self.groups} groups"

    def read(self) -> FairDataset:
        values = np.random.default_rng(0).normal(size=(30, 2))
        return FairDataset(values, ("x", "y"), {"kind": np.arange(30) % self.groups})


@dataclass(frozen=True)
class ThreeGroups(Nameless):
    """Thirty points of three groups."""

    name: ClassVar[str] = "three_groups"
    groups: ClassVar[int] = 3
    clusters: ClassVar[int] = 2


class Whole(ClusterMixin, BaseEstimator):
    """All points in the first of its clusters."""

    def __init__(self, n_clusters=8):
        self.n_clusters = n_clusters

    def fit(self, X, y=None, *, sensitive_features=None):
        self.labels_ = np.zeros(len(X), dtype=np.int64)
        return self
