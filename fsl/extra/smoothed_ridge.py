"""Ridge regression on features that are smoothed over the graph of all points."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast
from clustering.graphs.low_pass import low_pass
from clustering.graphs.neighbourhood import similarity_graph
from clustering.graphs.sparse_graph import SparseGraph
from clustering.lengths import unit_rows
from clustering.optimiser.points import Features
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.extra.ridge import SHARPNESS, Labels, Ridge, fit
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform, transform_features

SMOOTHINGS = (0.0, 0.5, 0.9, 0.98)
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
SHARPNESSES = (6.0, SHARPNESS, 24.0, 100.0, 400.0)
"""Candidates of the settings that are chosen by leave-one-out predictions."""

_DEFAULT = (0.9, 0.1)
"""Smoothing and penalty with few labels."""

_CONSTANT = 0.25
"""The constant feature. With penalty 0.1, it shrinks an intercept like 1.6 more labels, uniform ones, at the mean."""

FEW = 32
"""Number of features, such as columns of a table, up to which a classifier of a pile counts their lengths."""

_NAME_WEIGHT = 8.0
"""Weight of the class names with one label per class. It was chosen on WHU-RS19 with three encoders."""

_SMALLEST = 1e-6
"""Lower bound of smoothed class probabilities, so that no class name is excluded for certain."""


class SmoothedPoints(NamedTuple):
    """Points of B tasks, prepared once for any labels.

    Attributes:
        levels: (B, N, D + 1) smoothed features with mean 0 and mean squared norm 1, and the constant feature; one array
            for each smoothing.
        smoothings: the smoothing of each level.
        graph: the kNN graph.
    """

    levels: tuple[Tensor, ...]
    smoothings: tuple[float, ...]
    graph: SparseGraph


@dataclass(frozen=True)
class SmoothedRidge(Method):
    """Own method, not from a paper: ridge regression of the one-hot labels on features that are smoothed over the kNN
    graph of support and queries.

    The features of all points are scaled to unit length, centred, and smoothed,

        F = (1 - a) (I - a S)^-1 X,   S = D^-1/2 W D^-1/2,   w_ij = exp(-||x_i - x_j||^2 / s^2),

    with the median distance s of neighbours. Smoothing is label propagation applied to features instead of labels
    (Zhou et al. 2004; as in simple graph convolution, Wu et al. 2019), so it is done once for all labels. The scores
    of a point are those of ridge regression on F and a constant feature of 1/4, and its probabilities their softmax.
    The constant matters if the labels have other class shares than the points, such as equally many labels of unequal
    classes. It is small, so that a few labels drawn by chance do not decide how frequent a class is.

    Little smoothing and a small penalty are best with many labels or classes that no clusters show, and much smoothing
    if classes are clusters: smoothing, penalty, the sharpness of the softmax and the weights of labels, equal or
    balanced, are chosen by the log loss of the leave-one-out predictions of the labels, which ridge regression has in
    closed form.

    The defaults were chosen on features of Caltech-101, DTD, R8, MNIST and mini-ImageNet, for 1 to 16 labels a class.

    Attributes:
        transform: per-feature transform before the features are centred.
        smoothing: a, below 1; 0 is ridge regression on the features themselves. None: chosen from 0, 0.5, 0.9, 0.98.
        penalty: weight of the squared coefficients, for features of mean squared norm 1. None: chosen from 0.01 to 3.
        text_weight: weight of the logarithm of the smoothed class probabilities by class names; no effect without class
            names. None: 8 / n for n labels per class, n >= 1, since the scores improve with n; 1 without labels.
    """

    text: ClassVar[TextUse] = "optional"
    revision: ClassVar[int] = 2

    transform: Transform = "L2N"
    n_neighbors: Annotated[int, AtLeast(1)] = 10
    smoothing: Annotated[float, AtLeast(0)] | None = None
    penalty: Annotated[float, Above(0)] | None = None
    text_weight: Annotated[float, AtLeast(0)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothing is not None and self.smoothing >= 1:
            raise InputError(f"SmoothedRidge: smoothing must be below 1, not {self.smoothing!r}; 0.9 is much")

    @property
    def default(self) -> tuple[int, float]:
        """Index of the level of smoothing, and penalty, before labels tell better ones."""
        level = 0 if self.smoothing is not None else SMOOTHINGS.index(_DEFAULT[0])
        return level, _DEFAULT[1] if self.penalty is None else self.penalty

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        features = episodes.transformed(self.transform).features
        points = self._smoothed(features, episodes.mask)
        rows = torch.arange(episodes.support_size, device=features.device).expand(len(features), -1)
        prior = None
        if episodes.named:
            unknown = features.new_full((*rows.shape, episodes.way), 1 / episodes.way)
            prior = torch.cat([unknown, torch.softmax(episodes.log_prior, dim=2)], dim=1)
        _, logits = self.fitted(points, Labels(rows, episodes.support_one_hot), prior)
        return Predictions(torch.softmax(logits[:, episodes.support_size :], dim=2))

    def prepare(self, features: Tensor, base_mean: Tensor | None = None) -> SmoothedPoints:
        """Smooth the features (N, D) of one task, once for any labels. Of few features, lengths count: see `lifted`.

        Raises:
            InputError: there is only one point, which has no neighbours.
        """
        if len(features) < 2:
            raise InputError("smoothed_ridge needs at least two points; give more, or choose another strategy")
        if features.shape[1] <= FEW:
            return self._smoothed(lifted(features, features)[None], None)
        return self._smoothed(transform_features(features, self.transform, base_mean)[None], None)

    def fitted(self, points: SmoothedPoints, labels: Labels, prior: Tensor | None) -> tuple[Ridge, Tensor]:
        """The regression for these labels, and the (B, N, K) logits of all points.

        Args:
            points: result of `prepare`.
            labels: the labelled points.
            prior: (B, N, K) class probabilities by class names; None without class names.
        """
        evidence = None if prior is None else self._evidence(points, labels, prior)
        penalties = PENALTIES if self.penalty is None else (self.penalty,)
        level, penalty = self.default
        default = level, penalties.index(penalty)
        ridge = fit(
            points.levels,
            labels,
            penalties,
            default=default,
            evidence=evidence,
            sharpnesses=SHARPNESSES,
            balanced=(False, True),
        )
        return ridge, ridge.logits(points.levels, evidence)

    def _smoothed(self, features: Tensor, valid: Tensor | None) -> SmoothedPoints:
        centred = _centred(features, valid)
        graph = similarity_graph(Features(centred), self.n_neighbors, "gaussian", symmetry="union", valid=valid)
        assert isinstance(graph, SparseGraph)
        smoothings = SMOOTHINGS if self.smoothing is None else (self.smoothing,)
        levels = low_pass(graph, centred, smoothings)
        for index, level in enumerate(levels):
            _standardise(level, valid)
            levels[index] = torch.nn.functional.pad(level, (0, 1), value=_CONSTANT)
        return SmoothedPoints(tuple(levels), tuple(smoothings), graph)

    def _evidence(self, points: SmoothedPoints, labels: Labels, prior: Tensor) -> list[Tensor]:
        """(B, N, K) weighted logarithms of the smoothed class probabilities, one array for each level."""
        weight: float | Tensor | None = self.text_weight
        if weight is None:
            shots = labels.one_hot.sum(dim=(1, 2)) / prior.shape[2]
            weight = torch.where(shots > 0, _NAME_WEIGHT / shots.clamp_min(1), 1.0)[:, None, None]
        return [weight * level.clamp_min(_SMALLEST).log() for level in low_pass(points.graph, prior, points.smoothings)]


def lifted(points: Tensor, pile: Tensor) -> Tensor:
    """Unit rows (N, D + 1) of points (N, D) on a sphere: the distance from the mean of a pile (M, D) becomes an angle.

    The added coordinate is the root mean square of the distances of the pile.
    """
    centre = pile.mean(dim=0)
    radius = (pile - centre).square().sum(dim=1).mean().sqrt()
    return unit_rows(torch.nn.functional.pad(points - centre, (0, 1), value=float(radius)))


def _mean(points: Tensor, valid: Tensor | None) -> Tensor:
    """(B, 1, D) mean of the points (B, N, D), without the padded ones."""
    if valid is None:
        return points.mean(dim=1, keepdim=True)
    mask = valid[:, None].to(points.dtype)
    return torch.bmm(mask, points) / mask.sum(dim=2, keepdim=True)


def _centred(points: Tensor, valid: Tensor | None) -> Tensor:
    """Points (B, N, D) minus their mean; 0 in padded rows."""
    points = points - _mean(points, valid)
    return points if valid is None else points.mul_(valid[..., None])


def _standardise(points: Tensor, valid: Tensor | None) -> None:
    """Shift and scale points (B, N, D) in place to mean 0 and mean squared norm 1; 0 if all are equal."""
    points.sub_(_mean(points, valid))
    valid = points.new_ones(points.shape[:2]) if valid is None else valid
    points.mul_(valid[..., None])
    size = (points.flatten(1).norm(dim=1) ** 2 / valid.sum(dim=1))[:, None, None]
    points.mul_(torch.where(size > 0, size.clamp_min(torch.finfo(points.dtype).tiny).rsqrt(), 1.0))
