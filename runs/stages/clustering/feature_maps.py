"""A map of learned features in the plane, which is stored with a run so that figures need no features."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream

if TYPE_CHECKING:  # the fingerprint of a map has no other code of runs
    from torch import Tensor

    from runs.config.cluster import ClusterConfig
    from runs.stages.clustering.learning_run import Learned
    from runs.stages.clustering.results import Trials

PERPLEXITY = 30.0  # scikit-learn's default
FEWEST = 10  # points of a map


def points_of_map(config: "ClusterConfig", told: NDArray[np.bool_] | None, count: int) -> NDArray[np.int64] | None:
    """Return the (n,) indices of the points of the map that a config asks for; None if it asks for none.

    They are drawn from the points without known class and depend on the seed only: runs with the same known points map
    the same points. Call it before the training, which may take hours.

    Args:
        config: the config of a run.
        told: (N,) whether the class of a point is known; None if no class is.
        count: N.

    Raises:
        InputError: too few points without known class.
    """
    if config.map_points is None:
        return None
    untold = np.arange(count) if told is None else np.flatnonzero(~told)
    drawn = np.sort(stream(config.seed, "map").permutation(untold)[: config.map_points])
    if len(drawn) < FEWEST:
        raise InputError(
            f"map_points={config.map_points}: only {len(drawn)} points have no known class, and a map needs {FEWEST}; "
            "leave map_points out, or give fewer labels"
        )
    return drawn


def with_map(
    trials: "Trials", learned: "Learned", points: NDArray[np.int64] | None, classes: NDArray[Any] | None, seed: int
) -> "Trials":
    """Return the trials with a map.

    Args:
        trials: the trials of the run.
        learned: what the run learned.
        points: (n,) indices of the points of the map; None for no map.
        classes: (N,) class of each point; None if unknown.
        seed: seed of t-SNE.
    """
    if points is None:
        return trials
    feature_map = plane(learned.features[points], seed)
    mapped_classes = None if classes is None else np.asarray(classes, dtype=np.int64)[points]
    return dataclasses.replace(trials, feature_map=feature_map, mapped_classes=mapped_classes)


def plane(features: "Tensor", seed: int) -> NDArray[np.float32]:
    """(n, 2) t-SNE map of features (n, D), from their principal components (van der Maaten and Hinton 2008)."""
    from sklearn.manifold import TSNE

    model = TSNE(perplexity=min(PERPLEXITY, (len(features) - 1) / 3), random_state=seed)
    return np.asarray(model.fit_transform(features.numpy()), dtype=np.float32)
