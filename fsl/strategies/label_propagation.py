"""Label propagation: the step of TPN (Liu, Lee, Park, Kim, Yang, Hwang and Yang 2019) without its meta-training."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.errors import InputError
from clustering.graph import LARGEST_DENSE, nearest, symmetrised
from clustering.parameters import Above, AtLeast, validate
from clustering.points import squared_distances, squared_pairwise
from fsl.episodes import Episodes, Predictions
from fsl.transforms import Transform


@dataclass(frozen=True)
class LabelPropagation:
    """The support's labels spread over a graph of support and queries (Zhou et al. 2004):

        F = (I - alpha S)^-1 [T; 0],   S = D^-1/2 W D^-1/2,   w_ij = exp(-||x_i - x_j||^2 / (2 (width r)^2)),

    w_ij kept where one of the two is among the other's nearest neighbours, w_ii = 1. TPN learns a width for each
    point while it trains its network; here it is one for a task, in units of r, the median over its points of the
    distance to the last of their neighbours.

    The scores of a query are its probabilities up to a factor. A query that no support example reaches goes by its
    distances to the support means. Costs (S + Q)^3 / 3 multiply-adds and a matrix of (S + Q)^2.

    Attributes:
        transform: per-feature transform.
        neighbours: of each point, itself not counted; TPN's 20 counts it.
        alpha: share that a point takes from its neighbours, below 1; 0.99 in TPN.
        width: of the kernel, in units of r. At 1 the kept weights are nearly equal, and with alpha near 1 the labels
            of all classes mix: towards chance on tasks of 80 points.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "L2N"
    neighbours: Annotated[int, AtLeast(1)] = 19
    alpha: Annotated[float, AtLeast(0)] = 0.99
    width: Annotated[float, Above(0)] = 0.3

    def __post_init__(self) -> None:
        validate(self)
        if self.alpha >= 1:
            raise InputError(f"LabelPropagation: alpha must be below 1, not {self.alpha!r}; TPN has 0.99")

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        support = episodes.support_size
        if (size := support + episodes.query_size) > LARGEST_DENSE:
            raise InputError(
                f"label propagation factorises a dense matrix of all points; it takes up to {LARGEST_DENSE:,} a task, "
                f"not {size:,}, so give fewer queries at once"
            )
        system = self._normalised(self._weights(episodes)).mul_(-self.alpha)
        system.diagonal(dim1=1, dim2=2).add_(1)
        labels = episodes.support_one_hot
        known = torch.cat([labels, labels.new_zeros(len(labels), episodes.query_size, episodes.way)], dim=1)
        spread = torch.cholesky_solve(known, torch.linalg.cholesky(system))
        scores = spread[:, support:].clamp_min(0)  # below 0 by rounding alone
        mass = scores.sum(dim=2, keepdim=True)
        reached = mass > torch.finfo(mass.dtype).tiny
        probabilities = scores / mass.clamp_min(torch.finfo(mass.dtype).tiny)
        if not bool(reached.all()):
            distances = squared_distances(episodes.points, episodes.class_means)[:, :, support:]
            probabilities = torch.where(reached, probabilities, torch.softmax(-distances, dim=1).mT)
        return Predictions(probabilities, torch.zeros(len(labels), dtype=torch.int64, device=labels.device))

    def _weights(self, episodes: Episodes) -> Tensor:
        """(B, S + Q, S + Q) W; padded points have no neighbours."""
        padded = episodes.support_mask is not None or episodes.query_mask is not None
        valid = episodes.valid if padded else None
        distances = squared_pairwise(episodes.points)
        norms = episodes.points.squared_norms
        arcs = nearest(distances, self.neighbours, valid=valid)  # overwrites the diagonal
        if valid is None:
            radius = torch.mul(distances, arcs).amax(dim=2).median(dim=1).values
            typical = norms.mean(dim=1)
        else:
            arcs *= valid[:, :, None]
            missing = ~valid
            radius = torch.mul(distances, arcs).amax(dim=2).masked_fill(missing, torch.nan).nanmedian(dim=1).values
            typical = norms.masked_fill(missing, torch.nan).nanmean(dim=1)
        # Where all points are equal the distances are rounding, and all weights shall be near 1.
        radius = torch.maximum(radius, 1e-5 * typical).clamp_min(1e-12)
        weights = distances.mul_(-0.5 / (self.width**2 * radius)[:, None, None]).exp_()
        weights *= symmetrised(arcs, "union").weights
        weights.diagonal(dim1=1, dim2=2).fill_(1)
        return weights

    def _normalised(self, weights: Tensor) -> Tensor:
        """D^-1/2 W D^-1/2."""
        scale = weights.sum(dim=2).rsqrt()
        return weights * scale[:, :, None] * scale[:, None]
