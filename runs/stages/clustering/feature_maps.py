"""A map of learned features in the plane, which is stored with a run so that figures need no features."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from runs.config.cluster import ClusterConfig
from runs.stages.clustering.learning_run import Learned
from runs.stages.clustering.results import Trials

PERPLEXITY = 30.0  # scikit-learn's default
FEWEST = 10  # points of a map


def with_map(trials: Trials, learned: Learned, classes: NDArray[Any] | None, config: ClusterConfig) -> Trials:
    """Return the trials with the map that the config asks for.

    The points are drawn from those without known class, and depend on the seed only: runs with the same known points
    map the same points.

    Args:
        classes: (N,) class of each point; None if unknown.

    Raises:
        InputError: too few points without known class.
    """
    if config.map_points is None:
        return trials
    told = np.zeros(len(learned.labels), dtype=bool) if learned.told is None else learned.told
    drawn = np.sort(stream(config.seed, "map").permutation(np.flatnonzero(~told))[: config.map_points])
    if len(drawn) < FEWEST:
        raise InputError(
            f"map_points={config.map_points}: only {len(drawn)} points have no known class, and a map needs {FEWEST}; "
            "leave map_points out, or give fewer labels"
        )
    feature_map = plane(learned.features[drawn], config.seed)
    mapped_classes = None if classes is None else np.asarray(classes, dtype=np.int64)[drawn]
    return dataclasses.replace(trials, feature_map=feature_map, mapped_classes=mapped_classes)


def plane(features: Tensor, seed: int) -> NDArray[np.float32]:
    """(n, 2) t-SNE map of features (n, D), from their principal components (van der Maaten and Hinton 2008)."""
    from sklearn.manifold import TSNE

    model = TSNE(perplexity=min(PERPLEXITY, (len(features) - 1) / 3), random_state=seed)
    return np.asarray(model.fit_transform(features.numpy()), dtype=np.float32)
