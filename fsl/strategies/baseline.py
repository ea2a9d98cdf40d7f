"""Baseline: a linear classifier trained on the support (Chen, Liu, Kira, Wang and Huang 2019, "A Closer Look at
Few-shot Classification")."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from clustering.foundation.parameters import Above, AtLeast, Within, validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.linear_heads import Draw, Schedule, train
from fsl.transforms import Transform


@dataclass(frozen=True)
class Baseline:
    """Linear classifier P(k | x_q) = softmax_k( <w_k, x_q> + b_k ), trained by cross-entropy on the support features.

    The schedule is the paper's (section 4.2), with dampening and uniform initial weights as in its public code. All
    tasks use the same random numbers, see `fsl.strategies.shared.linear_heads.Draw`. Training works exactly on the
    inner products of the support; its cost is quadratic in the size of the support.

    Attributes:
        transform: per-feature transform; none in the paper.
        learning_rate: step size of the gradient descent.
        momentum: fraction of the previous step that is kept.
        dampening: the gradient is multiplied by 1 - dampening before it is added to the momentum.
        weight_decay: weight decay of weights and biases.
        batch: support examples per step.
        epochs: passes over the support.
        seed: seed of the initial weights and the order of the examples.
    """

    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "UN"
    learning_rate: Annotated[float, Above(0)] = 0.01
    momentum: Annotated[float, Within(0, 1)] = 0.9
    dampening: Annotated[float, Within(0, 1)] = 0.9
    weight_decay: Annotated[float, AtLeast(0)] = 0.001
    batch: Annotated[int, AtLeast(1)] = 4
    epochs: Annotated[int, AtLeast(1)] = 100
    seed: int = 0

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the iterations are gradient steps."""
        episodes = episodes.transformed(self.transform)
        draw = Draw.of(episodes, self.seed, self.epochs)
        # The bias is the weight of an additional constant feature of 1.
        bias = draw.bias[draw.slots][..., None]
        support, query = episodes.support, episodes.query
        initial = draw.products(support) + bias
        products = torch.bmm(support, support.mT) + 1
        targets = episodes.support_one_hot.mT

        def gradient(state: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
            logits = torch.addcmul(torch.bmm(state[:, :, 1:], products), state[:, :, :1], initial)
            change = torch.zeros_like(state)
            torch.mul(torch.softmax(logits, dim=1) - targets, share, out=change[:, :, 1:])
            return change

        start = torch.nn.functional.pad(torch.zeros_like(initial), (1, 0))  # a, then c
        start[:, :, 0] = 1
        schedule = Schedule(
            self.learning_rate, self.momentum, self.dampening, self.weight_decay, self.batch, self.epochs
        )
        state, steps = train(start, gradient, draw, schedule, episodes.support_mask)
        weights = torch.bmm(state[:, :, 1:], support)
        logits = torch.bmm(weights, query.mT) + state[:, :, 1:].sum(2, keepdim=True)
        logits += state[:, :, :1] * (draw.products(query) + bias)
        return Predictions(torch.softmax(logits, dim=1).mT, steps)
