"""The final ridge classifier of a training, and the labels of all points."""

from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from clustering.deep.xsdc.discriminative import PENALTIES, Ridge, best_penalty, left_out_error, lone_labels, ridge
from clustering.deep.xsdc.reversal import Reversal
from clustering.deep.xsdc.rounding import nearest_labels, spectral_labels

Kind = Literal["nearest", "labelled"]

_ROUNDED = 2000
"""Number of points whose M is rounded if labels are unknown; the eigenvectors of M take the square of it in memory."""


class Final(NamedTuple):
    """The fitted classifier.

    Attributes:
        kind: "labelled", fitted to labelled points; "nearest", fitted to all points, where the others take the label of
            the nearest labelled point (XSDC, Jones, Roulet and Harchaoui, section 5).
        penalty: penalty of the regression.
        classifier: ridge classifier of the features.
    """

    kind: Kind
    penalty: float
    classifier: Ridge


def final_classifier(
    features: Tensor, labels: NDArray[np.int64], clusters: int, kind: Literal["auto"] | Kind, penalty: float
) -> Final:
    """The ridge classifier of this kind; "auto" is that of kind and penalty (of `PENALTIES`) whose mean squared error
    at labelled points is least, each left out in turn: "labelled" where both kinds are as good, and the greatest
    penalty of those. Where a cluster has a single label it is "nearest".

    "nearest" does better where labels are so few that they leave out some directions of the features, "labelled" where
    clusters overlap, so that the nearest label is often wrong. Where features were trained on the same labels both
    errors are too low; they are compared, not believed.

    Args:
        features: (N, D).
        labels: (N,) 0..K-1, -1 where unknown; each label of some point.
        clusters: K.
        kind: or "auto".
        penalty: of that kind; "auto" has its own.
    """
    told, others = (torch.from_numpy(np.flatnonzero(which)).to(features.device) for which in (labels >= 0, labels < 0))
    points = torch.cat([features[told], features[others]])
    known = torch.from_numpy(labels).to(features.device)[told]
    targets = torch.nn.functional.one_hot(known, clusters).to(torch.float64)
    if kind == "auto" and lone_labels(targets):
        kind = "nearest"
    if kind == "auto" and not len(others):
        penalty = best_penalty(points, targets)
    if kind == "labelled" or len(told) < 2 or not len(others):  # of one labelled point nothing can be left out
        return Final("labelled", penalty, ridge(features[told], targets, penalty))
    nearest = _two_nearest(features[others], features[told])
    full = torch.cat([targets, targets[nearest[:, 0]]])
    if kind == "nearest":
        return Final(kind, penalty, ridge(points, full, penalty))
    falling = PENALTIES.flip(0)
    alone = left_out_error(features[told], targets, falling)
    both = nearest_left_out_error(points, full, nearest, falling)
    if float(alone.min()) <= float(both.min()):
        penalty = float(falling[int(alone.argmin())])
        return Final("labelled", penalty, ridge(features[told], targets, penalty))
    penalty = float(falling[int(both.argmin())])
    return Final("nearest", penalty, ridge(points, full, penalty))


def nearest_left_out_error(features: Tensor, targets: Tensor, nearest: Tensor, penalties: Tensor) -> Tensor:
    """(p,) mean squared error of ridge regression at labelled points left out one after another, in closed form, where
    all other points have the label of the nearest labelled one that is not left out.

    With H of the regression on all points, Y their targets, and Y' those where i is left out, which differ at the
    points that i is the nearest to, the error is y_i - (H Y')_i over 1 - H_ii.

    Args:
        features: (n, D), l labelled points first.
        targets: (n, K) one-hot labels, of the n - l others that of the nearest labelled point.
        nearest: (n - l, 2) of the others the nearest labelled point, and the second.
        penalties: (p,) of p regressions.
    """
    count, others = len(features), len(nearest)
    labelled = count - others
    centred = features.to(torch.float64)
    centred = centred - centred.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    along, targets = centred @ vectors, targets.to(torch.float64)
    changes = targets[nearest[:, 1]] - targets[nearest[:, 0]]
    told = along[:labelled]
    squares, paired = told.square(), along[nearest[:, 0]] * along[labelled:]
    sums, mean = along.T @ targets, targets.mean(dim=0)
    errors = []
    for penalty in penalties.to(values):
        inverses = 1 / (values.clamp_min(0) + count * penalty)
        fitted = told @ (inverses[:, None] * sums) + mean
        weights = paired @ inverses + 1 / count  # H of each other point and the one it is nearest to
        fitted = fitted.index_add(0, nearest[:, 0], weights[:, None] * changes)
        leverage = squares @ inverses + 1 / count
        left_out = (targets[:labelled] - fitted) / (1 - leverage).clamp_min(1e-12)[:, None]
        errors.append(left_out.square().sum(-1).mean())
    return torch.stack(errors)


def _two_nearest(features: Tensor, known: Tensor) -> Tensor:
    """(n, 2) the nearest and second nearest of the known points (m, D) to each point (n, D), computed in blocks."""
    search = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(known.cpu().numpy())
    found = search.kneighbors(features.cpu().numpy(), return_distance=False)
    return torch.from_numpy(found).to(features.device)


def rounded_labels(
    training: Reversal, features: Tensor, penalty: float, generator: np.random.Generator
) -> NDArray[np.int64]:
    """(N,) labels from M of some of the points, of the others that of the nearest; named by the labels that are known.

    Args:
        training: with what is known of the points.
        features: (N, D) of all.
        penalty: of the regression that M is balanced for.
        generator: of the points that are taken.
    """
    known, clusters = training.known, training.clusters
    told = next(training.batches(_ROUNDED // 2, generator)).known
    rest = generator.permutation(np.setdiff1d(training.others, told))
    taken = np.concatenate([told, rest])[:_ROUNDED]
    some = features[torch.from_numpy(taken).to(features.device)]
    M, _ = training.equivalence(some, taken, penalty)
    found = spectral_labels(M.cpu().numpy(), clusters, generator)
    table = np.zeros((clusters, clusters))
    named = known.labels[taken] >= 0
    np.add.at(table, (found[named], known.labels[taken][named]), 1)
    found = linear_sum_assignment(table, maximize=True)[1][found]
    return nearest_labels(features.cpu().numpy(), some.cpu().numpy(), found)
