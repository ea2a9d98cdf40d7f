"""The discriminative objective: the loss of a ridge regression that separates clusters by features.

    F(Phi; M) = min_{W, b} (1/n) ||Y - Phi W - 1 b^T||^2 + penalty ||W||^2 = tr(M A(Phi)),    M = Y Y^T

With both minimisations solved, it depends on the n x n equivalence matrix M alone, which may be relaxed (DIFFRAC, Bach
and Harchaoui 2007; XSDC, Jones, Roulet and Harchaoui, section 3). With P the centred features and T = P^T P +
n penalty I, A = (I - 1 1^T / n - P T^-1 P^T) / n, so that only D x D systems are solved. A is positive semi-definite,
A 1 = 0, and no eigenvalue is above 1/n. All is computed in double precision: penalties as small as 2^-40 are usual, and
features of norm one leave T a condition number of 1e11 then.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from clustering.foundation.errors import InputError

PENALTIES = 2.0 ** -torch.arange(41, dtype=torch.float64)
"""Candidate penalties for selection by leave-one-out errors, from the largest (the grid of the paper)."""

_LONE_PENALTY = 2.0**-14
"""Penalty if a class has a single label. With one label per class, XSDC then beats the nearest labelled point (mean of
three draws) on digits, MNIST, USPS, wine and breast cancer; with 2^-10 and above it is worse on some of them."""


def normalised_features(features: Tensor, scale: Tensor | None = None) -> Tensor:
    """(n, D) features, each minus the mean of its own D numbers, divided by the mean norm of all.

    They span D - 1 dimensions. Norms still differ, but their mean is one (the authors' code; the paper says "centred
    and normalised to unit l2 norm on average"). Gradients treat the mean norm as a constant: otherwise spreading the
    points, as separate clusters do, would increase all norms and be penalised.

    Args:
        features: (n, D).
        scale: () the mean length to divide by, such as `feature_scale` of other points; that of these where None.
    """
    centred = features - features.mean(dim=1, keepdim=True)
    normalised: Tensor = centred / (feature_scale(features.detach()) if scale is None else scale)
    return normalised


def feature_scale(features: Tensor) -> Tensor:
    """() mean norm by which `normalised_features` divides features (n, D)."""
    mean: Tensor = (features - features.mean(dim=1, keepdim=True)).norm(dim=1).mean()
    return mean.clamp_min(1e-5)


def dissimilarity(features: Tensor, penalty: float) -> Tensor:
    """(n, n) A of features (n, D), float64, the weights of M in the objective.

    Args:
        features: (n, D).
        penalty: > 0, of the squared weights.
    """
    system, count = _System.of(features.detach(), penalty), len(features)
    half = system.centred @ (system.vectors * system.inverses.sqrt())
    A = half @ half.T
    A.neg_().sub_(1 / count)
    A.diagonal().add_(1)
    return A.div_(count)


def eigengap(features: Tensor, penalty: float, clusters: int) -> float:
    """Gap between the eigenvalues K and K + 1 of A in ascending order (XSDC, Figure 13); 0 if n <= K.

    The eigenvalues are 0 for the constant vector, penalty / (s^2 + n penalty) for each singular value s of P, and 1/n
    for the rest, so the gap is about proportional to a small penalty.

    Args:
        features: (n, D).
        penalty: > 0.
        clusters: K.
    """
    count, system = len(features), _System.of(features, penalty)
    ascending = torch.full((max(count, clusters + 1, len(system.values) + 1),), 1 / count, dtype=torch.float64)
    ascending[0] = 0
    ascending[1 : 1 + len(system.values)] = penalty * system.inverses.flip(0).cpu()
    return float(ascending[clusters] - ascending[clusters - 1]) if count > clusters else 0.0


def discriminative_objective(features: Tensor, equivalence: Tensor, penalty: float) -> Tensor:
    """() F(Phi; M), with gradients for the features, by their closed form; none for M.

    Args:
        features: (n, D), of any float type; F is float64.
        equivalence: (n, n) M >= 0, 1 for points in the same cluster and 0 for others; it may be asymmetric.
        penalty: > 0.
    """
    value: Tensor = _Objective.apply(features, equivalence, penalty, False)  # type: ignore[no-untyped-call]
    return value


def ridge_objective(features: Tensor, targets: Tensor, penalty: float) -> Tensor:
    """() F(Phi; Y Y^T) of one-hot or soft labels Y (n, K), as `discriminative_objective`, without a matrix of all
    pairs."""
    value: Tensor = _Objective.apply(features, targets, penalty, True)  # type: ignore[no-untyped-call]
    return value


class Ridge(NamedTuple):
    """Linear classifier of features, float64.

    Attributes:
        weights: (D, K) W.
        intercept: (K,) b.
    """

    weights: Tensor
    intercept: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """(n, K); rows sum to one if those of the targets did."""
        return features.to(self.weights.dtype) @ self.weights + self.intercept


def ridge(features: Tensor, targets: Tensor, penalty: float) -> Ridge:
    """The minimisers W and b for targets (n, K) of features (n, D)."""
    system, targets = _System.of(features, penalty), targets.to(torch.float64)
    weights = system.solve(system.centred.T @ targets)
    return Ridge(weights, targets.mean(dim=0) - features.to(torch.float64).mean(dim=0) @ weights)


def left_out_error(features: Tensor, targets: Tensor, penalties: Tensor, nearest: Tensor | None = None) -> Tensor:
    """(p,) leave-one-out mean squared error of ridge regression at the labelled points, in closed form, where each
    unlabelled point has the label of the nearest labelled point that is not left out.

    Let H be the hat matrix of the regression on all points, Y the targets, and Y' the targets without labelled point i.
    Y' differs from Y at the unlabelled points whose nearest labelled point is i. The error at i is
    (y_i - (H Y')_i) / (1 - H_ii).

    Args:
        features: (n, D), n >= 2, the l labelled points first.
        targets: (n, K) one-hot labels; those of the n - l unlabelled points are the labels of their nearest labelled
            points.
        penalties: (p,) penalties of p regressions, which share one decomposition.
        nearest: (n - l, 2) the nearest and second nearest labelled point of each unlabelled point; None without them.
    """
    count, system, targets = len(features), _System.of(features, 1.0), targets.to(torch.float64)
    projected, centred = system.centred @ system.vectors, targets - targets.mean(dim=0)
    labelled = count if nearest is None else count - len(nearest)
    sums, of_labelled, errors = projected.T @ centred, projected[:labelled], []
    for penalty in penalties.to(system.values):
        inverses = 1 / (system.values + count * penalty)
        fitted = of_labelled @ (inverses[:, None] * sums)
        if nearest is not None:
            # H of each unlabelled point and its nearest labelled point
            weights = (projected[nearest[:, 0]] * projected[labelled:]) @ inverses + 1 / count
            changes = targets[nearest[:, 1]] - targets[nearest[:, 0]]
            fitted = fitted.index_add(0, nearest[:, 0], weights[:, None] * changes)
        leverage = of_labelled.square() @ inverses + 1 / count
        left_out = (centred[:labelled] - fitted) / (1 - leverage).clamp_min(1e-12)[:, None]
        errors.append(left_out.square().sum(-1).mean())
    return torch.stack(errors)


def best_penalty(features: Tensor, targets: Tensor) -> float:
    """The largest of the `PENALTIES` with the lowest `left_out_error`; 2^-14 if a class has a single point.

    Args:
        features: (n, D).
        targets: (n, K) one-hot labels.
    """
    if lone_labels(targets):
        return _LONE_PENALTY
    return float(PENALTIES[int(left_out_error(features, targets, PENALTIES).argmin())])


def lone_labels(targets: Tensor) -> bool:
    """Whether a class of one-hot labels (n, K) has a single point: without it nothing is known of the class, so
    leave-one-out errors are uninformative."""
    return bool((targets.sum(dim=0) == 1).any())


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
    if kind == "auto":
        alone = left_out_error(labelled, targets, PENALTIES)
        both = left_out_error(points, full, PENALTIES, nearest)
        kind, errors = ("labelled", alone) if float(alone.min()) <= float(both.min()) else ("nearest", both)
        penalty = float(PENALTIES[int(errors.argmin())])
    return penalty, ridge(labelled, targets, penalty) if kind == "labelled" else ridge(points, full, penalty)


class _System(NamedTuple):
    """T^-1 of features by eigenvectors, which rounding cannot make indefinite, unlike a Cholesky factor."""

    centred: Tensor  # (n, D) P, float64
    values: Tensor  # (D,) eigenvalues of P^T P
    vectors: Tensor  # (D, D)
    inverses: Tensor  # (D,) eigenvalues of T^-1

    @classmethod
    def of(cls, features: Tensor, penalty: float) -> "_System":
        if not penalty > 0:
            raise InputError(f"the ridge penalty must be above 0, not {penalty}")
        centred = features.to(torch.float64)
        centred = centred - centred.mean(dim=0)
        values, vectors = torch.linalg.eigh(centred.T @ centred)
        values = values.clamp_min(0)
        return cls(centred, values, vectors, 1 / (values + len(features) * penalty))

    def solve(self, right: Tensor) -> Tensor:
        """T^-1 of (D, m)."""
        return self.vectors @ (self.inverses[:, None] * (self.vectors.T @ right))


class _Objective(torch.autograd.Function):
    """F, and its gradient -2 A M P T^-1 (XSDC, eq. 6), M symmetrised. The one product with an n x n matrix is M P."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, target: Tensor, penalty: float, factor: bool) -> Tensor:
        count, system, target = len(features), _System.of(features, penalty), target.to(torch.float64)
        if factor:  # M = Y Y^T
            product = target @ (target.T @ system.centred)
            trace = target.square().sum() - target.sum(0).square().sum() / count
        else:
            product = (target @ system.centred + target.T @ system.centred) / 2
            trace = target.trace() - target.sum() / count
        solved = system.solve(system.centred.T @ product)  # T^-1 P^T M P
        if ctx.needs_input_grad[0]:
            residual = product - product.mean(dim=0) - system.centred @ solved
            slope = system.solve(residual.T).T * (-2 / count)
            ctx.save_for_backward(slope.to(features.dtype))
        return (trace - solved.trace()) / count

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * outer.to(slope.dtype), None, None, None
