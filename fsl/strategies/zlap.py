"""ZLaP: label propagation from class names to images (Stojnić, Kalantidis and Tolias 2024, "Label Propagation for
Zero-Shot Classification with Vision-Language Models")."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.graphs.knn import nearest_neighbours
from clustering.graphs.neighbourhood import cosine_of
from clustering.graphs.propagation import SparsePropagation
from clustering.graphs.sparse_graph import SparseGraph
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform, unit_features


@dataclass(frozen=True)
class ZLaP(Method):
    """Propagate the labels of class names over a graph of class names, support and queries:

        F = (I - alpha D^-1/2 W D^-1/2)^-1 Y,   W = A + A^T.

    The arcs A lead from each image to its nearest images, with weight max(cos, 0), and to its nearest class names, with
    weight max(cos, 0)^power, which compensates that images are more similar to each other than to texts. Y has a one
    for each class name and each support point in its class.

    The probabilities of a query are its normalised scores; a query without positive scores keeps its probabilities by
    class names. If the queries are from a few of the named classes, the method loses many points.

    Attributes:
        n_neighbors: number of nearest images, without the image itself; 5 with it in the public code.
        texts: number of nearest class names.
        power: exponent of the similarities of images and class names.
        alpha: weight of the neighbours' labels, below 1.
    """

    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"
    texts: ClassVar[int] = 5
    power: ClassVar[float] = 5.0

    n_neighbors: Annotated[int, AtLeast(1)] = 4
    alpha: Annotated[float, AtLeast(0)] = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha >= 1:
            raise InputError(f"ZLaP: alpha must be below 1, not {self.alpha!r}; the paper uses 0.3")

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated.

        Raises:
            InputError: there are probabilities of the queries, but no features of the class names.
        """
        if episodes.text is None:
            raise InputError("ZLaP needs the features of the class names; give text")
        text = unit_features(episodes.text)
        episodes = episodes.transformed(self.transform)
        first, ways = episodes.support_size, episodes.way
        graph = self._graph(episodes, text)
        scale = graph.degrees.clamp_min(torch.finfo(episodes.dtype).tiny).rsqrt()
        names = torch.eye(ways, dtype=episodes.dtype, device=episodes.query.device).expand(len(episodes.query), -1, -1)
        unknown = names.new_zeros(len(names), episodes.query_size, ways)
        known = torch.cat([names, episodes.support_one_hot, unknown], dim=1)
        scores = SparsePropagation(graph.scaled(scale), self.alpha).spread(known.mT).mT[:, ways + first :]
        mass = scores.sum(dim=2, keepdim=True)
        probabilities = torch.where(mass > 0, scores / mass.clamp_min(1e-30), torch.softmax(episodes.log_prior, dim=2))
        return Predictions(probabilities)

    def _graph(self, episodes: Episodes, text: Tensor) -> SparseGraph:
        """The graph of class names, support and queries, in this order."""
        images, ways = episodes.features, episodes.way
        near = nearest_neighbours(images, self.n_neighbors, valid=episodes.mask, unit=True)
        cosines = torch.bmm(images, text.mT).clamp_min_(0)
        best = cosines.topk(min(self.texts, ways), dim=2)
        indices = torch.cat([near.indices + ways * near.present, best.indices], dim=2)
        weights = torch.cat([cosine_of(near.squared_distances).clamp_min_(0), best.values.pow(self.power)], dim=2)
        indices = indices.masked_fill((weights == 0) | ~episodes.valid[..., None], -1)
        none = indices.new_full((len(indices), ways, indices.shape[2]), -1)
        indices = torch.cat([none, indices], dim=1)
        weights = torch.cat([weights.new_zeros(none.shape), weights], dim=1)
        return SparseGraph.of_arcs(indices, weights)
