"""SimpleShot: nearest support mean (Wang, Chao, Weinberger and van der Maaten 2019), and the head of Prototypical
Networks (Snell, Swersky and Zemel 2017)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch

from clustering.foundation.parameters import Above, AtLeast
from clustering.optimiser.points import cosines
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform


@dataclass(frozen=True)
class SimpleShot(Method):
    """Each query gets the class of the nearest support mean (thesis section 1.2.3).

    Probabilities are softmax(-beta d), where d is the squared Euclidean distance or 1 - cosine. The means of
    transformed features are not normalised again, so the two metrics differ for more than one shot. The thesis states
    the cosine; the public code uses the Euclidean distance.

    Attributes:
        metric: "euclidean" or "cosine".
        beta: inverse temperature of the probabilities; the prediction does not depend on it.
    """

    transductive: ClassVar[bool] = False
    text: ClassVar[TextUse] = "optional"

    transform: Transform = "CL2N"
    metric: Literal["euclidean", "cosine"] = "euclidean"
    beta: Annotated[float, Above(0)] = 1.0
    text_weight: Annotated[float, AtLeast(0)] | None = None

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        points, means = episodes.points, episodes.class_means
        if self.metric == "cosine":
            distances = 1 - cosines(points, means)
        else:
            products = points.inner(means)
            norms = torch.linalg.vecdot(products, means)[..., None]
            distances = torch.sub(norms, products, alpha=2)  # without ||x_q||^2, which is the same for all classes
        cost = self.beta * distances[:, :, episodes.support_size :]
        if not bool(episodes.labelled.all()):
            cost = cost * episodes.labelled  # without support, the class names alone tell the classes
        cost = episodes.with_text(cost.mT, self.text_weight, self.beta).mT
        return Predictions(torch.softmax(-cost, dim=1).mT)


@dataclass(frozen=True)
class ProtoNet(SimpleShot):
    """P(k | x_q) = softmax_k( -beta ||x_q - m_k||^2 ) with the support means m_k and beta = 1 (eq. 2 of the paper). The
    paper trains the network with this head; on given features it is SimpleShot without a transform and class names."""

    text: ClassVar[TextUse] = "none"
    metric: ClassVar[Literal["euclidean"]] = "euclidean"  # type: ignore[misc]
    beta: ClassVar[float] = 1.0  # type: ignore[misc]
    text_weight: ClassVar[float] = 0.0  # type: ignore[misc]

    transform: Transform = "UN"
