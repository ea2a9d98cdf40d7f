"""LaplacianShot (Ziko, Dolz, Granger and Ben Ayed 2020; chapter 4 of the thesis)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.neighbourhood import neighbour_graph, similarity_graph
from clustering.optimiser.descent import descend
from clustering.optimiser.points import Points, squared_distances
from clustering.optimiser.terms import Graph, Laplacian
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import PublishedMethod
from fsl.strategies.shared.rectification import rectified_means
from fsl.transforms import Transform

FEW_SHOTS = 10
"""With this many shots or more, prototypes are not rectified by default."""

Form = Literal["corrected", "published", "alpha_tim", "lata"]
STEPS: dict[Form, tuple[int, float | None]] = {
    "corrected": (100, 1e-6),
    "published": (20, 1e-6),
    "alpha_tim": (20, 1e-6),
    "lata": (8, None),
}
"""Maximum number of steps, and the relative change of the objective at which a task stops; None: never."""


@dataclass(frozen=True)
class LaplacianShot(PublishedMethod):
    """Nearest prototype with Laplacian regularisation: neighbouring queries are encouraged to have the same class
    (thesis eqs. 4.4 and 4.12).

    Minimises <Y, a> + <Y, log Y> - (weight / 2) <Y, W Y> over the queries' assignments Y, where a_qk is the squared
    distance to the prototype of class k and W is the kNN graph of the queries.

    The defaults are the correct form. `as_published` is the form of the public code, which produced the tables of the
    thesis: its graph is directed, and its update does not minimise an objective. Its stopping rule uses a quantity with
    twice the weight of the graph, which its update does not minimise; here the stopping rule uses R.

    Attributes:
        weight: lambda of the update softmax(-a + lambda W Y), >= 0. It multiplies the sum over neighbours, so the
            influence of the graph is weight times n_neighbors; where that product exceeds 2, the neighbours outvote the
            prototypes. The papers tune it on validation tasks from 0.1 to 1.5, with 2 neighbours besides the query
            itself, and use 0.7 for most 1-shot settings. None decreases it with the number of shots n, because
            prototypes improve with n: 1.6 / (1 + (n / 16)^2) / n_neighbors; with a directed graph, divided by
            n_neighbors + 1, since public codes count the query itself.
        n_neighbors: k of the kNN graph, without the query itself (Table 4.1 uses 3, including the query).
        graph: symmetrisation of the kNN graph. A "directed" graph, as published, has no objective: its steps are those
            of the papers, without a guard.
        shift: shift the queries so that their mean equals the support's (section 4.3.4). This assumes equal class
            proportions in both: with Dirichlet proportions it cost 1 to 2 points on mini-ImageNet (Conv-4, Conv-6).
        rectify: use rectified prototypes instead of support means; None: for fewer than 10 shots. With more shots, the
            support means are accurate, and misclassified queries make them worse: on validation classes of
            mini-ImageNet (Conv-4, Conv-6), rectification gained 2.7 to 3.6 points for 1 shot, and lost 0.3 to 1 point
            for 20 shots.
        variant: "corrected", or "published": the prototype of an uncertain class is shorter and support points join
            their predicted class, see `fsl.strategies.shared.rectification`, in at most 20 steps. "alpha_tim" is the
            public code of the alpha-TIM benchmark (Veilleux et al. 2021), which then classifies the queries where they
            were before the shift. "lata" is LaTA: 8 steps on a graph of weights exp(-d^2 / s^2) for neighbours at
            distance d, with the median s of these distances.
    """

    text: ClassVar[TextUse] = "optional"
    published: ClassVar[Mapping[str, Any]] = {
        "weight": 0.7,
        "rectify": True,
        "graph": "directed",
        "variant": "published",
    }
    temperature: ClassVar[float] = 10.0

    transform: Transform = "CL2N"
    weight: Annotated[float, AtLeast(0)] | None = None
    n_neighbors: Annotated[int, AtLeast(1)] = 2
    graph: Symmetry = "average"
    shift: bool = True
    rectify: bool | None = None
    variant: Form = "corrected"
    text_weight: Annotated[float, AtLeast(0)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant == "alpha_tim" and not self.shift:
            raise InputError("LaplacianShot: variant=alpha_tim differs from published by the shift; set shift=true")

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """The settings of the public code, which shifts the queries only if it rectifies prototypes, with changes."""
        return super().as_published(**{"shift": changes.get("rectify", True), **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective."""
        episodes = episodes.transformed(self.transform)
        points = episodes.shifted_points if self.shift else episodes.points
        prototypes = episodes.class_means
        which = episodes.shots < FEW_SHOTS if self.rectify is None else torch.full_like(episodes.shots, self.rectify)
        if bool(which.any()):
            counted = self.variant in ("published", "alpha_tim")
            form: Any = {"divisor": "count", "joins": "predicted"} if counted else {}
            rectified = rectified_means(episodes, points, temperature=self.temperature, **form)
            prototypes = torch.where(which.bool(), rectified, prototypes)
        if self.variant == "alpha_tim":
            points, prototypes = episodes.points, episodes.unshifted(prototypes)
        descent = descend(
            self._cost(episodes, points, prototypes),
            self._terms(episodes),
            clamp=episodes.padding,
            step="published" if self.graph == "directed" else "monotone",
            max_iterations=STEPS[self.variant][0],
            tolerance=STEPS[self.variant][1],
            trace=True,
        )
        return Predictions(descent.assignments, descent.iterations, descent.trace)

    def _terms(self, episodes: Episodes) -> list[Laplacian]:
        weight: float | Tensor | None = self.weight
        if weight is None:
            weight = 1.6 / (self.n_neighbors + (self.graph == "directed")) / (1 + (episodes.shots / 16) ** 2)
        elif weight == 0:
            return []
        return [Laplacian(self._query_graph(episodes), weight)]

    def _cost(self, episodes: Episodes, points: Points, prototypes: Tensor) -> Tensor:
        """(B, Q, K) squared distances to the prototypes and evidence of the class names; 0 in padded rows."""
        cost = squared_distances(points, prototypes)[:, :, episodes.support_size :].mT
        if not bool(episodes.labelled.all()):
            cost = cost * episodes.labelled  # without support, the class names alone tell the classes
        if episodes.query_mask is not None:
            cost = cost * episodes.query_mask[..., None]
        return episodes.with_text(cost, self.text_weight)

    def _query_graph(self, episodes: Episodes) -> Graph:
        """The kNN graph of the queries; it does not depend on the shift."""
        of: Any = {"first": episodes.support_size, "symmetry": self.graph, "valid": episodes.query_mask}
        if self.variant == "lata":
            return similarity_graph(episodes.points, self.n_neighbors, "gaussian", **of)
        return neighbour_graph(episodes.points, self.n_neighbors, **of)
