"""PADDLE: few classes in use among many ways (Martin, Boudiaf, Chouzenoux, Pesquet and Ben Ayed 2022)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch

from clustering.descent import descend
from clustering.objective import Term
from clustering.parameters import Above, AtLeast, validate
from clustering.points import squared_distances
from clustering.proportions import ProportionEntropy
from clustering.scatter import Scatter
from clustering.softmax import softmax
from fsl.episodes import Episodes, Predictions
from fsl.scaling import min_max_points
from fsl.transforms import Transform

Scaling = Literal["min-max", "none"]

PUBLISHED_WIDTH = 640
"""D of the features that the papers' tables are about (WRN; 512 of ResNet-18)."""


@dataclass(frozen=True)
class PADDLE:
    """Soft K-means with labelled support, whose class proportions u are drawn to low entropy.

    Minimises over the queries' assignments Y and the prototypes w (eq. 2)

        beta / 2 (sum_qk y_qk ||x_q - w_k||^2 + sum_s ||x_s - w_ys||^2) + <Y, log Y> + weight Q H(u),   u = mean_q y_q.

    A round is y_q = softmax_k(-(beta / 2) ||x_q - w_k||^2 + weight (log u_k + 1)), then new means; the first has the
    support means and no second term. Both parts are concave in Y once w is minimised out, so that a round is the pure
    bound step and the objective never rises.

    Attributes:
        transform: per-feature transform; UN in the public code.
        scaling: "min-max" maps every channel so that the task's queries span 0 to 1, as in the public code; "none".
        beta: factor of the squared distances; 1 in the public code. They are sums over D channels, so that D is a
            hidden inverse temperature: None makes it that of 640 channels, 640 / D, after min-max scaling, else 1.
        weight: of the entropy of the proportions, times Q: the published lambda over the number of queries, 75 / 75.
            0 is soft K-means.
        rounds: at most; 100 in the paper, up to 1000 in the public configurations.
        tolerance: relative change of the objective at which a task stops; 0 goes on to rounding, as published.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "UN"
    scaling: Scaling = "min-max"
    beta: Annotated[float, Above(0)] | None = None
    weight: Annotated[float, AtLeast(0)] = 1.0
    rounds: Annotated[int, AtLeast(1)] = 100
    tolerance: Annotated[float, AtLeast(0)] = 1e-6

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective."""
        episodes = episodes.transformed(self.transform)
        points = min_max_points(episodes) if self.scaling == "min-max" else episodes.points
        distances = squared_distances(points, episodes.class_means)[:, :, episodes.support_size :]
        beta = self.beta or (PUBLISHED_WIDTH / episodes.features.shape[2] if self.scaling == "min-max" else 1.0)
        start = softmax(-0.5 * beta * distances).mT
        valid = None if episodes.query_mask is None else episodes.query_mask[:, None].to(episodes.dtype)
        terms: list[Term] = [Scatter(points, episodes.support_one_hot.mT, valid, beta)]
        if self.weight > 0:
            terms.append(ProportionEntropy(self.weight, valid))
        found = descend(
            torch.zeros_like(start),
            terms,
            start=start,
            clamp=episodes.padding,
            step="published",  # concave terms: the guard would reject nothing, and costs a sixth of the time
            max_iterations=self.rounds - 1,
            tolerance=self.tolerance,
            trace=True,
        )
        return Predictions(found.assignments, found.iterations + 1, found.trace)
