"""Ridge regression on one-hot labels for a batch of tasks, with its settings chosen by leave-one-out predictions.

The leave-one-out residuals of ridge regression have a closed form, (y_i - f(x_i)) / (1 - h_i) with the leverage h_i
(Allen 1974), so a setting costs one eigendecomposition instead of one fit per label.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

SHARPNESS = 12.0
"""Factor of the scores in the softmax: scores are near 1 for the own class, and near 0 for the others."""

_STANDARD_ERRORS = 2.0
"""By how many standard errors a setting must be better than the default. With few labels, differences are chance."""


class Labels(NamedTuple):
    """The labelled points of B tasks.

    Attributes:
        rows: (B, S) int64 indices of the labelled points.
        one_hot: (B, S, K) their labels, 0 in padded rows.
    """

    rows: Tensor
    one_hot: Tensor

    def of(self, points: Tensor) -> Tensor:
        """(B, S, ...) the rows of (B, N, ...) points, in double precision; 0 in padded rows."""
        picked = points.gather(1, self.rows[..., None].expand(-1, -1, points.shape[2]))
        return picked.double() * self.one_hot.sum(dim=2, keepdim=True)

    @property
    def comparable(self) -> Tensor:
        """(B, S) bool, whether another label of the same class is left if this one is left out."""
        return (self.one_hot * self.one_hot.sum(dim=1, keepdim=True)).sum(dim=2) > 1


class Ridge(NamedTuple):
    """Ridge regression of B tasks.

    Attributes:
        level: (B,) int64 index of the chosen features.
        penalty: (B,) the chosen penalty.
        sharpness: (B,) factor of the scores in the softmax.
        coefficients: (B, D, K) for the chosen features.
        left_out: (B, S, K) log-probabilities of each labelled point, computed without its label.
    """

    level: Tensor
    penalty: Tensor
    sharpness: Tensor
    coefficients: Tensor
    left_out: Tensor

    def logits(self, levels: Sequence[Tensor], evidence: Sequence[Tensor] | None) -> Tensor:
        """(B, N, K) logits of all points, from their features and evidence, given as in `fit`."""
        total: Tensor | None = None
        for index, points in enumerate(levels):
            chosen = self.level == index
            if bool(chosen.any()):
                factor = (self.sharpness * chosen)[:, None, None]
                logits = torch.bmm(points, (self.coefficients * factor).to(points.dtype))
                if evidence is not None:
                    logits = logits + evidence[index] * chosen[:, None, None]
                total = logits if total is None else total + logits
        assert total is not None
        return total


def fit(
    levels: Sequence[Tensor],
    labels: Labels,
    penalties: Sequence[float],
    *,
    default: tuple[int, int],
    evidence: Sequence[Tensor] | None = None,
    sharpnesses: Sequence[float] = (SHARPNESS,),
    balanced: Sequence[bool] = (False,),
) -> Ridge:
    """Fit ridge regression, and choose features, weights, penalty and sharpness for each task by the leave-one-out log
    loss.

    Labels have equal weights, or balanced ones, with the same sum for each class. With more classes than dimensions,
    equal weights let classes with many labels hide those with few (Hastie, Tibshirani and Friedman 2009, 4.2).

    A setting replaces the default only if its log loss is lower by two standard errors. Only labels whose class has
    another label are compared.

    Args:
        levels: (B, N, D) features, one array for each level of smoothing.
        labels: the labelled points; S may be 0.
        penalties: candidates > 0, in units of the mean squared norm of the features.
        default: indices of the default level and penalty.
        evidence: (B, N, K) logarithms added to the scaled scores, one array for each level; None without class names.
        sharpnesses: candidates for the sharpness; the default is among them.
        balanced: candidates for the weights of labels, the default first.
    """
    one_hot = labels.one_hot.double()
    centre = one_hot.sum(dim=2, keepdim=True) / one_hot.shape[2]
    targets = one_hot - centre
    best: Ridge | None = None
    standard = lowest = torch.empty(0)
    for even in balanced:
        roots = (_balanced(one_hot) if even else torch.ones_like(centre)).sqrt()
        # A task tries the second weights only on the features that the first have chosen. The default comes first.
        first = None if best is None else best.level
        tried = range(len(levels)) if first is None else sorted(set(first.tolist()))
        for index in sorted(tried, key=lambda index: index != default[0]):
            spectrum = _Spectrum.of(labels.of(levels[index]) * roots, targets * roots)
            added = 0.0 if evidence is None else labels.of(evidence[index])
            for penalty in sorted(penalties, key=lambda penalty: penalty != penalties[default[1]]):
                predicted = targets - spectrum.residuals(penalty) / roots
                for sharpness in sorted(sharpnesses, key=lambda value: value != SHARPNESS):
                    left_out = torch.log_softmax(sharpness * predicted + added, dim=2)
                    losses = -(left_out * one_hot).sum(dim=2)
                    if best is None:
                        standard, lowest = losses, losses.new_zeros(len(losses))
                        better = torch.ones_like(lowest, dtype=torch.bool)
                    else:
                        bound = _upper_bound(losses - standard, labels.comparable)
                        better = bound < lowest if first is None else (bound < lowest) & (first == index)
                        lowest = torch.where(better, bound, lowest)
                    if best is not None and not bool(better.any()):
                        continue
                    found = Ridge(
                        torch.full_like(better, index, dtype=torch.int64),
                        torch.full_like(lowest, penalty),
                        torch.full_like(lowest, sharpness),
                        spectrum.coefficients(penalty),
                        left_out,
                    )
                    best = found if best is None else _replaced(best, found, better)
    assert best is not None
    return best


def _balanced(one_hot: Tensor) -> Tensor:
    """(B, S, 1) weights with the same sum for each class that has labels, and mean 1."""
    counts = one_hot.sum(dim=1, keepdim=True)
    present = (counts > 0).sum(dim=2, keepdim=True).clamp_min(1)
    weights = (one_hot / counts.clamp_min(1)).sum(dim=2, keepdim=True) * counts.sum(dim=2, keepdim=True) / present
    return torch.where(weights > 0, weights, 1.0)  # 1 in padded rows


class _Spectrum(NamedTuple):
    """The eigenvalues and -vectors of A^T A, for labelled points A (B, S, D) and targets Y.

    Attributes:
        values: (B, r) eigenvalues, for all vectors that A does not map to 0.
        left: (B, S, r) A V.
        vectors: (B, D, r) V.
        projected: (B, r, K) (A V)^T Y.
        targets: (B, S, K) Y.
    """

    values: Tensor
    left: Tensor
    vectors: Tensor
    projected: Tensor
    targets: Tensor

    @classmethod
    def of(cls, points: Tensor, targets: Tensor) -> "_Spectrum":
        if points.shape[1] > points.shape[2]:
            values, vectors = torch.linalg.eigh(torch.bmm(points.mT, points))
            left = torch.bmm(points, vectors)
        else:  # the smaller matrix A A^T has the same eigenvalues
            values, basis = torch.linalg.eigh(torch.bmm(points, points.mT))
            lengths = values.clamp_min(0).sqrt()[:, None]
            left = basis * lengths
            vectors = torch.where(lengths > 0, torch.bmm(points.mT, basis) / lengths.clamp_min(1e-150), 0.0)
        return cls(values.clamp_min(0), left, vectors, torch.bmm(left.mT, targets), targets)

    def coefficients(self, penalty: float) -> Tensor:
        """(B, D, K) (A^T A + penalty I)^-1 A^T Y."""
        return torch.bmm(self.vectors / (self.values + penalty)[:, None], self.projected)

    def residuals(self, penalty: float) -> Tensor:
        """(B, S, K) leave-one-out residuals."""
        shrunk = self.left / (self.values + penalty)[:, None]
        leverage = (self.left * shrunk).sum(dim=2, keepdim=True)
        return (self.targets - torch.bmm(shrunk, self.projected)) / (1 - leverage).clamp_min(1e-9)


def _upper_bound(differences: Tensor, counted: Tensor) -> Tensor:
    """(B,) mean of the differences (B, S) plus standard errors; 0 if fewer than two are counted."""
    number = counted.sum(dim=1)
    mean = (differences * counted).sum(dim=1) / number.clamp_min(1)
    variance = ((differences - mean[:, None]).square() * counted).sum(dim=1) / (number - 1).clamp_min(1)
    bound = mean + _STANDARD_ERRORS * (variance / number.clamp_min(1)).sqrt()
    return torch.where(number > 1, bound, 0.0)


def _replaced(old: Ridge, new: Ridge, better: Tensor) -> Ridge:
    shaped = (better.view(-1, *[1] * (value.dim() - 1)) for value in old)
    return Ridge(*(torch.where(where, b, a) for where, a, b in zip(shaped, old, new, strict=True)))
