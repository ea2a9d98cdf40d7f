"""Label propagation as in TPN (Liu, Lee, Park, Kim, Yang, Hwang and Yang 2019), without its meta-training."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast
from clustering.graphs.dense_graph import nearest, symmetrised
from clustering.graphs.knn import nearest_neighbours
from clustering.graphs.propagation import SparsePropagation
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.points import Features, Points, squared_distances, squared_pairwise
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform


@dataclass(frozen=True)
class LabelPropagation(Method):
    """Propagate the support's labels over a graph of support and queries (Zhou et al. 2004):

        F = (I - alpha S)^-1 [T; 0],   S = D^-1/2 W D^-1/2,   w_ij = exp(-||x_i - x_j||^2 / (2 (width r)^2)),

    where w_ij is kept if one point is among the nearest neighbours of the other, and w_ii = 1. TPN learns a width for
    each point when it trains the network; here a task has one width, in units of r, the median distance of its points
    to their last neighbour.

    The probabilities of a query are its normalised scores. A query that is not connected to any support example is
    classified by its distances to the support means. The system is factorised, with (S + Q)^3 / 3 multiply-adds, or for
    tasks with many points solved by conjugate gradients, where scores below 1e-12 count as 0.

    Attributes:
        n_neighbors: number of neighbours of each point, without the point itself; TPN's 20 include it.
        alpha: weight of the neighbours' labels, below 1; 0.99 in TPN.
        width: width of the kernel, in units of r. At 1 the weights are almost equal, and with alpha near 1 the labels
            of all classes mix: the accuracy approaches chance on tasks of 80 points.
        text_weight: mass of a query's class probabilities by class names among the propagated labels, relative to a
            label of the support; no effect without class names. None: a tenth of the mass of all labels in total, or 1
            without labels.
    """

    text: ClassVar[TextUse] = "optional"

    transform: Transform = "CL2N"
    n_neighbors: Annotated[int, AtLeast(1)] = 19
    alpha: Annotated[float, AtLeast(0)] = 0.99
    width: Annotated[float, Above(0)] = 0.3
    text_weight: Annotated[float, AtLeast(0)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha >= 1:
            raise InputError(f"LabelPropagation: alpha must be below 1, not {self.alpha!r}; TPN uses 0.99")

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        support, labels = episodes.support_size, episodes.support_one_hot
        unknown = labels.new_zeros(len(labels), episodes.query_size, episodes.way)
        if episodes.named:
            unknown = torch.softmax(episodes.log_prior, dim=2) * episodes.valid[:, support:, None]
            unknown = self._text_weight(labels, unknown) * unknown
        known = torch.cat([labels, unknown], dim=1)
        scores = self._spread(episodes, known)[:, support:].clamp_min(0)  # negative only by rounding
        mass = scores.sum(dim=2, keepdim=True)
        reached = mass > torch.finfo(mass.dtype).tiny
        probabilities = scores / mass.clamp_min(torch.finfo(mass.dtype).tiny)
        if not bool(reached.all()):
            distances = squared_distances(episodes.points, episodes.class_means)[:, :, support:]
            probabilities = torch.where(reached, probabilities, torch.softmax(-distances, dim=1).mT)
        return Predictions(probabilities)

    def _text_weight(self, labels: Tensor, unknown: Tensor) -> float | Tensor:
        """(B, 1, 1) weight of the class names, given the labels of the support and the queries' probabilities."""
        if self.text_weight is not None:
            return self.text_weight
        mass = labels.sum(dim=(1, 2), keepdim=True)
        return torch.where(mass > 0, 0.1 * mass / unknown.sum(dim=(1, 2), keepdim=True), 1.0)

    def _spread(self, episodes: Episodes, known: Tensor) -> Tensor:
        """(B, S + Q, K) scores F; padded points have no neighbours."""
        points, valid = episodes.points, episodes.mask
        if isinstance(points, Features):
            near = nearest_neighbours(points.values, self.n_neighbors, valid=valid)
            weights = self._kernel(near.squared_distances, near.squared_distances.amax(dim=2), points, valid)
            graph = SparseGraph.of_arcs(near.indices, weights, "union")
            scale = (graph.degrees + 1).rsqrt()
            return SparsePropagation(graph.scaled(scale), self.alpha, diagonal=scale.square()).spread(known.mT).mT
        distances = squared_pairwise(points)
        arcs = nearest(distances, self.n_neighbors, valid=valid)
        weights = self._kernel(distances, torch.mul(distances, arcs).amax(dim=2), points, valid)
        weights *= symmetrised(arcs, "union")
        weights.diagonal(dim1=1, dim2=2).fill_(1)
        scale = weights.sum(dim=2).rsqrt()
        system = weights.mul_(scale[:, :, None] * scale[:, None]).mul_(-self.alpha)
        system.diagonal(dim1=1, dim2=2).add_(1)
        return torch.cholesky_solve(known, torch.linalg.cholesky(system))

    def _kernel(self, squared: Tensor, farthest: Tensor, points: Points, valid: Tensor | None) -> Tensor:
        """exp(-squared / (2 (width r)^2)), with r from the (B, S + Q) squared distances to the last neighbours."""
        norms = points.squared_norms
        if valid is None:
            radius, typical = farthest.median(dim=1).values, norms.mean(dim=1)
        else:
            radius = farthest.masked_fill(~valid, torch.nan).nanmedian(dim=1).values
            typical = norms.masked_fill(~valid, torch.nan).nanmean(dim=1)
        # If all points are equal, the distances are rounding errors, and all weights should be near 1.
        radius = torch.maximum(radius, 1e-5 * typical).clamp_min(1e-12)
        return torch.mul(squared, -0.5 / (self.width**2 * radius)[:, None, None]).exp_()
