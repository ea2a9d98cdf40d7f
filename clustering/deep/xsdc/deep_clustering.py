"""Labels of deep clustering (Caron, Bojanowski, Joulin and Douze 2018), with which the paper compares balancing.

They are clusters of K-means on the features of all points, which is repeated after some steps, and batches draw from
these clusters uniformly.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.deep.xsdc.rounding import unit_kmeans
from clustering.foundation.streams import stream

_VARIANCE = 0.95
"""Share of the variance of the features that the principal components have, as in the paper."""


@dataclass
class DeepClustering:
    """Clusters of all points during a training (XSDC, Jones, Roulet and Harchaoui, section 5).

    Attributes:
        clusters: number of clusters of K-means, which may exceed the number of clusters K that are asked for.
        steps: number of steps from one K-means to the next.
        seed: seed of the starts and of the batches, together with the step.
        labels: (N,) cluster of each point at the last K-means; None before the first.
    """

    clusters: int
    steps: int
    seed: int
    labels: NDArray[np.int64] | None = field(default=None, repr=False)

    def at(self, step: int, features: Callable[[], Tensor]) -> NDArray[np.int64]:
        """(N,) labels for a step, counted from 1. K-means is run on `features()` at the first one and every `steps`."""
        if self.labels is None or (step - 1) % self.steps == 0:
            self.labels = deep_labels(features(), self.clusters, stream(self.seed, "deep clustering", step), starts=1)
        return self.labels

    def drawn(self, points: NDArray[np.int64], count: int, step: int) -> NDArray[np.int64]:
        """(count,) of these points, without repetition. All clusters have the same chance at the first draw; that of
        a cluster falls as its points are drawn.

        Each point waits for an exponential time with the rate 1 / (size of its cluster), and the first ones are drawn.
        """
        if count >= len(points) or self.labels is None:
            return points
        labels = self.labels[points]
        sizes = np.bincount(labels)[labels]
        times = stream(self.seed, "deep batches", step).exponential(size=len(points)) * sizes
        return points[np.argsort(times)[:count]]


def deep_labels(
    features: Tensor, clusters: int, generator: np.random.Generator, *, starts: int = 10
) -> NDArray[np.int64]:
    """(n,) labels by K-means on whitened features (n, D), rows scaled to unit norm.

    The principal components that together have 95 % of the variance are whitened.

    Args:
        features: (n, D).
        clusters: number of clusters, at most n.
        generator: random generator of the starts.
        starts: number of starts of K-means.
    """
    centred = features.detach().to(torch.float64)
    centred = centred - centred.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
    count = int((values.cumsum(0) < _VARIANCE * values.sum()).sum()) + 1
    whitened = centred @ vectors[:, :count] / values[:count].clamp_min(1e-300).sqrt()
    return unit_kmeans(whitened.cpu().numpy(), clusters, generator, starts=starts)
