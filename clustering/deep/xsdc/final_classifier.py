"""The final ridge classifier of a training, and the labels of all points."""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from clustering.deep.xsdc.assignments import spectral_labels
from clustering.deep.xsdc.discriminative import PENALTIES, Ridge, best_penalty, left_out_error, lone_labels, ridge
from clustering.deep.xsdc.training import Reversal

_ROUNDED = 2000
"""Number of points whose M is rounded if labels are unknown; the memory of the eigendecomposition of M grows with its
square."""


def final_classifier(
    features: Tensor,
    labels: NDArray[np.int64],
    clusters: int,
    kind: Literal["auto", "nearest", "labelled"],
    penalty: float,
) -> tuple[float, Ridge]:
    """The penalty, and the ridge classifier of the features with it.

    "labelled" is fitted to labelled points; "nearest" to all points, where the others take the label of the nearest
    labelled point (XSDC, Jones, Roulet and Harchaoui, section 5).

    "auto" chooses the kind and the penalty (from `PENALTIES`) with the lowest leave-one-out mean squared error at the
    labelled points. Ties go to "labelled" and to the largest penalty. If some cluster has a single labelled point,
    "auto" chooses "nearest".

    "nearest" is better if labelled points are too few to span all directions of the features; "labelled" is better if
    clusters overlap, so that the label of the nearest labelled point is often wrong. If features were trained on the
    same labels, both errors are too low, so they are only compared with each other.

    Args:
        features: (N, D).
        labels: (N,) 0..K-1, -1 for unknown; each label occurs.
        clusters: K.
        kind: kind of the classifier, or "auto".
        penalty: penalty of the regression; "auto" chooses its own unless some cluster has a single labelled point.
    """
    every = torch.from_numpy(labels).to(features.device)
    labelled, others = features[every >= 0], features[every < 0]
    targets = torch.nn.functional.one_hot(every[every >= 0], clusters).to(torch.float64)
    if kind == "auto" and lone_labels(targets):
        kind = "nearest"
    if kind == "auto" and not len(others):
        penalty = best_penalty(labelled, targets)
    if kind == "labelled" or len(labelled) < 2 or not len(others):  # leave-one-out needs two labelled points
        return penalty, ridge(labelled, targets, penalty)
    search = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(labelled.cpu().numpy())
    indices = search.kneighbors(others.cpu().numpy(), return_distance=False)
    nearest = torch.from_numpy(indices).to(features.device)
    points, full = torch.cat([labelled, others]), torch.cat([targets, targets[nearest[:, 0]]])
    if kind == "nearest":
        return penalty, ridge(points, full, penalty)
    alone = left_out_error(labelled, targets, PENALTIES)
    both = left_out_error(points, full, PENALTIES, nearest)
    if float(alone.min()) <= float(both.min()):
        penalty = float(PENALTIES[int(alone.argmin())])
        return penalty, ridge(labelled, targets, penalty)
    penalty = float(PENALTIES[int(both.argmin())])
    return penalty, ridge(points, full, penalty)


def rounded_labels(
    training: Reversal, features: Tensor, penalty: float, generator: np.random.Generator
) -> NDArray[np.int64]:
    """(N,) labels of all points: M of a sample of the points is rounded, and the other points get the label of the
    nearest point of the sample. Clusters are matched to the known labels.

    Args:
        training: points with their labels and links.
        features: (N, D) features of all points.
        penalty: penalty of the regression for which M is computed.
        generator: random generator of the sample.
    """
    known, clusters = training.known, training.clusters
    told = next(training.batches(generator, _ROUNDED // 2)).known
    rest = generator.permutation(np.setdiff1d(np.flatnonzero(known.labels < 0), told))
    points = np.concatenate([told, rest])[:_ROUNDED]
    sample = features[torch.from_numpy(points).to(features.device)]
    M, _ = training.equivalence(sample, points, penalty)
    assigned = spectral_labels(M.cpu().numpy(), clusters, generator)
    table = np.zeros((clusters, clusters))
    named = known.labels[points] >= 0
    np.add.at(table, (assigned[named], known.labels[points][named]), 1)
    assigned = linear_sum_assignment(table, maximize=True)[1][assigned]
    return np.asarray(assigned[pairwise_distances_argmin(features.cpu().numpy(), sample.cpu().numpy())])
