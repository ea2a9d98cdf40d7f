"""Zero-shot classification by class names (Radford et al. 2021, CLIP), with class proportions by optimal transport
(Shin, Zhao, Cromp, Vishwakarma and Sala 2024, OTTER)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from clustering.optimiser.transport import sinkhorn
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import Method
from fsl.strategies.shared.proportions import Proportions, class_shares
from fsl.transforms import Transform


@dataclass(frozen=True)
class ZeroShot(Method):
    """Each query gets the class whose name is most similar to it; labelled examples are not used.

    Probabilities are softmax_k(logit_scale cos(x_q, t_k)), with the features t_k of the class names, or the `prior` of
    the episodes. With `proportions`, the strategy is transductive: the probabilities are the plan of an optimal
    transport of the queries to classes of these sizes, with cost -log of the former ones. OTTER has no entropy in this
    transport, which is at most 1.3 points better with true proportions, and far worse with estimated ones.

    Attributes:
        proportions: class proportions of the queries, see `fsl.strategies.shared.proportions`; None: none are used.
    """

    transductive: ClassVar[bool] = False
    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"

    proportions: Proportions = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.proportions is not None:
            object.__setattr__(self, "transductive", True)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries."""
        if self.proportions is None:
            return Predictions(torch.softmax(episodes.log_prior, dim=2))
        queries = episodes.valid[:, episodes.support_size :].to(episodes.dtype)
        transport = sinkhorn(episodes.log_prior, queries, class_shares(self.proportions, episodes))
        return Predictions(transport.assignments, transport.rounds)
