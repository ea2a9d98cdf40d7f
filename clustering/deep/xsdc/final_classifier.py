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

Kind = Literal["nearest", "labelled"]

_ROUNDED = 2000
"""Number of points whose M is rounded if labels are unknown; the memory of the eigendecomposition of M grows with its
square."""


def final_classifier(
    features: Tensor, labels: NDArray[np.int64], clusters: int, kind: Literal["auto"] | Kind, penalty: float
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
    labelled, others = (
        torch.from_numpy(np.flatnonzero(mask)).to(features.device) for mask in (labels >= 0, labels < 0)
    )
    points = torch.cat([features[labelled], features[others]])
    known = torch.from_numpy(labels).to(features.device)[labelled]
    targets = torch.nn.functional.one_hot(known, clusters).to(torch.float64)
    if kind == "auto" and lone_labels(targets):
        kind = "nearest"
    if kind == "auto" and not len(others):
        penalty = best_penalty(points, targets)
    if kind == "labelled" or len(labelled) < 2 or not len(others):  # leave-one-out needs two labelled points
        return penalty, ridge(features[labelled], targets, penalty)
    search = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(features[labelled].cpu().numpy())
    indices = search.kneighbors(features[others].cpu().numpy(), return_distance=False)
    nearest = torch.from_numpy(indices).to(features.device)
    full = torch.cat([targets, targets[nearest[:, 0]]])
    if kind == "nearest":
        return penalty, ridge(points, full, penalty)
    falling = PENALTIES.flip(0)
    labelled_only = left_out_error(features[labelled], targets, falling)
    both = nearest_left_out_error(points, full, nearest, falling)
    if float(labelled_only.min()) <= float(both.min()):
        penalty = float(falling[int(labelled_only.argmin())])
        return penalty, ridge(features[labelled], targets, penalty)
    penalty = float(falling[int(both.argmin())])
    return penalty, ridge(points, full, penalty)


def nearest_left_out_error(features: Tensor, targets: Tensor, nearest: Tensor, penalties: Tensor) -> Tensor:
    """(p,) leave-one-out mean squared error of ridge regression at the labelled points, in closed form, where each
    unlabelled point has the label of the nearest labelled point that is not left out.

    Let H be the hat matrix of the regression on all points, Y the targets, and Y' the targets without labelled point i.
    Y' differs from Y at the unlabelled points whose nearest labelled point is i. The error at i is
    (y_i - (H Y')_i) / (1 - H_ii).

    Args:
        features: (n, D), the l labelled points first.
        targets: (n, K) one-hot labels; those of the n - l unlabelled points are the labels of their nearest labelled
            points.
        nearest: (n - l, 2) the nearest and second nearest labelled point of each unlabelled point.
        penalties: (p,) penalties of p regressions.
    """
    count, others = len(features), len(nearest)
    labelled = count - others
    centred = features.to(torch.float64)
    centred = centred - centred.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    projected, targets = centred @ vectors, targets.to(torch.float64)
    changes = targets[nearest[:, 1]] - targets[nearest[:, 0]]
    projected_labelled = projected[:labelled]
    squares, paired = projected_labelled.square(), projected[nearest[:, 0]] * projected[labelled:]
    sums, mean = projected.T @ targets, targets.mean(dim=0)
    errors = []
    for penalty in penalties.to(values):
        inverses = 1 / (values.clamp_min(0) + count * penalty)
        fitted = projected_labelled @ (inverses[:, None] * sums) + mean
        weights = paired @ inverses + 1 / count  # H of each unlabelled point and its nearest labelled point
        fitted = fitted.index_add(0, nearest[:, 0], weights[:, None] * changes)
        leverage = squares @ inverses + 1 / count
        left_out = (targets[:labelled] - fitted) / (1 - leverage).clamp_min(1e-12)[:, None]
        errors.append(left_out.square().sum(-1).mean())
    return torch.stack(errors)


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
    labelled = next(training.batches(_ROUNDED // 2, generator)).known
    rest = generator.permutation(np.setdiff1d(training.others, labelled))
    points = np.concatenate([labelled, rest])[:_ROUNDED]
    sample = features[torch.from_numpy(points).to(features.device)]
    M, _ = training.equivalence(sample, points, penalty)
    assigned = spectral_labels(M.cpu().numpy(), clusters, generator)
    table = np.zeros((clusters, clusters))
    named = known.labels[points] >= 0
    np.add.at(table, (assigned[named], known.labels[points][named]), 1)
    assigned = linear_sum_assignment(table, maximize=True)[1][assigned]
    return np.asarray(assigned[pairwise_distances_argmin(features.cpu().numpy(), sample.cpu().numpy())])
