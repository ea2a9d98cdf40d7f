"""Baseline and Baseline++: a linear and a cosine classifier trained on the support (Chen, Liu, Kira, Wang and Huang
2019, "A Closer Look at Few-shot Classification")."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import AtLeast
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.linear_heads import Draw, train
from fsl.strategies.shared.method import Method, PublishedMethod
from fsl.transforms import Transform

_LENGTH = 1e-5  # added to a feature's length, as in the public code


@dataclass(frozen=True)
class Baseline(Method):
    """Linear classifier P(k | x_q) = softmax_k( <w_k, x_q> + b_k ), trained by cross-entropy on the support features.

    The schedule is the paper's (section 4.2): mini-batches of 4, step size 0.01 and weight decay 0.001, with
    dampening and uniform initial weights as in its public code. All tasks use the same random numbers, see
    `fsl.strategies.shared.linear_heads.Draw`. Training works exactly on the inner products of the support; its cost
    is quadratic in the size of the support.

    Attributes:
        transform: per-feature transform; none in the paper.
        epochs: passes over the support.
        seed: seed of the initial weights and the order of the examples.
    """

    transductive: ClassVar[bool] = False
    learning_rate: ClassVar[float] = 0.01
    weight_decay: ClassVar[float] = 0.001
    batch: ClassVar[int] = 4

    transform: Transform = "UN"
    epochs: Annotated[int, AtLeast(1)] = 100
    seed: int = 0

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

        def gradient(state: Tensor, share: Tensor) -> Tensor:
            logits = torch.addcmul(torch.bmm(state[:, :, 1:], products), state[:, :, :1], initial)
            change = torch.zeros_like(state)
            torch.mul(torch.softmax(logits, dim=1) - targets, share, out=change[:, :, 1:])
            return change

        start = torch.nn.functional.pad(torch.zeros_like(initial), (1, 0))  # a, then c
        start[:, :, 0] = 1
        state, steps = train(start, gradient, draw, self, episodes.support_mask)
        weights = torch.bmm(state[:, :, 1:], support)
        logits = torch.bmm(weights, query.mT) + state[:, :, 1:].sum(2, keepdim=True)
        logits += state[:, :, :1] * (draw.products(query) + bias)
        return Predictions(torch.softmax(logits, dim=1).mT, steps)


@dataclass(frozen=True)
class BaselinePlusPlus(Baseline, PublishedMethod):
    """Cosine classifier P(k | x_q) = softmax_k( scale g_k cos(v_k, x_q) ), with directions v_k and lengths g_k trained
    by cross-entropy on the support.

    The lengths, the scale and the dampening are those of the public code; the paper (section 3.2) has the cosine only.
    All tasks use the same random numbers, see `fsl.strategies.shared.linear_heads.Draw`. Training works exactly on the
    inner products of the support; its cost is quadratic in the size of the support.

    The paper uses untransformed features of a network that was trained with this head. Features of other networks after
    a ReLU have cosines near 1, and a short training hardly changes the random initial directions: with a Conv-4 trained
    as ProtoNet on mini-ImageNet, the 1-shot accuracy was 20 % (chance), and 45 % with CL2N.

    Attributes:
        transform: per-feature transform; none in the paper. The cosine does not depend on transforms without centring.
        For the other fields see `Baseline`.
    """

    published: ClassVar[Mapping[str, Any]] = {"transform": "UN"}

    transform: Transform = "CL2N"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the iterations are gradient steps."""
        episodes = episodes.transformed(self.transform)
        scale = 2.0 if episodes.way <= 200 else 10.0  # as in the public code
        draw = Draw.of(episodes, self.seed, self.epochs)
        support, query = _unit(episodes.support), _unit(episodes.query)
        initial, products = draw.products(support), torch.bmm(support, support.mT)
        squared_lengths = draw.weights.square().sum(1)[draw.slots][..., None]
        targets = episodes.support_one_hot.mT

        def directions(state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """(B, K, 1) lengths g_k, (B, K, S) inner products <v_k, x_s> and (B, K, 1) 1 / ||v_k||."""
            g, a, c = state.tensor_split([1, 2], dim=2)
            inner = torch.addcmul(torch.bmm(c, products), a, initial)
            along = a * squared_lengths + (c * initial).sum(2, keepdim=True)  # <v_k, v0_k>
            return g, inner, (a * along + (c * inner).sum(2, keepdim=True)).clamp_min(1e-24).rsqrt()

        def gradient(state: Tensor, share: Tensor) -> Tensor:
            g, inner, inverse = directions(state)
            logits = (scale * g * inverse) * inner
            errors = (torch.softmax(logits, dim=1) - targets) * (scale * share)
            of_length = (errors * inner).sum(2, keepdim=True) * inverse
            shrink = -(g * inverse.square() * of_length)  # the component along v_k, which does not change the cosine
            return torch.cat(
                [of_length, shrink * state[:, :, 1:2], torch.addcmul(g * inverse * errors, shrink, state[:, :, 2:])], 2
            )

        start = torch.nn.functional.pad(torch.zeros_like(initial), (2, 0))  # g, a, then c
        start[:, :, :1], start[:, :, 1] = squared_lengths.sqrt(), 1
        state, steps = train(start, gradient, draw, self, episodes.support_mask)
        g, _, inverse = directions(state)
        inner = torch.bmm(torch.bmm(state[:, :, 2:], support), query.mT) + state[:, :, 1:2] * draw.products(query)
        return Predictions(torch.softmax(scale * g * inverse * inner, dim=1).mT, steps)


def _unit(features: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(features, dim=2, keepdim=True)
    return features / (lengths + _LENGTH)
