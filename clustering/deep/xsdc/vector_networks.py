"""Networks for points in vector form: one kernel layer, one linear layer, or a multilayer perceptron."""

from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from clustering.deep.xsdc.kernel_networks import SphereDescent, inverse_square_root

_POINTS = 1000
"""Number of points whose distances determine the bandwidth."""


class Network(Protocol):
    """A `torch.nn.Module` that computes features and defines its initialisation and its optimiser.

    Attributes:
        usual_step: default step size.
    """

    usual_step: float

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        """Initialise the parameters from inputs (n, …)."""
        ...

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        """The optimiser, with step size `step` and weight `decay` of the sum of squared parameters."""
        ...

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, D) features."""
        ...

    def __getattr__(self, name: str) -> Any: ...


class KernelMap(nn.Module):
    """Nystrom features of the Gaussian kernel: exp(-||x - v||^2 / (2 s^2)) for p landmarks v, multiplied by the inverse
    square root of their Gram matrix (the paper's network for MAGIC and Gisette, with 32 landmarks).

    As in the paper, the bandwidth s is the median distance between the first 1000 points.

    Attributes:
        landmarks: (p, d), initialised with points drawn at random.
        bandwidth: () s.
    """

    usual_step = 1.0
    bandwidth: Tensor

    def __init__(self, dimension: int, landmarks: int = 32, *, unit_landmarks: bool = False) -> None:
        """With `unit_landmarks`, initial landmarks are scaled to unit norm, as in the authors' code."""
        super().__init__()
        self.unit_landmarks = unit_landmarks
        self.landmarks = nn.Parameter(torch.zeros(landmarks, dimension))
        self.register_buffer("bandwidth", torch.ones(()))

    def forward(self, points: Tensor) -> Tensor:
        return self._similarity(points) @ inverse_square_root(self._similarity(self.landmarks))

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        points, count = len(inputs), len(self.landmarks)
        drawn = inputs[torch.from_numpy(generator.choice(points, count, replace=points < count)).to(inputs.device)]
        if self.unit_landmarks:
            drawn = nn.functional.normalize(drawn, dim=1)
        distances = torch.nn.functional.pdist(inputs[:_POINTS])
        typical = float(distances.median()) if len(distances) else 1.0
        with torch.no_grad():
            self.landmarks.copy_(drawn)
            self.bandwidth.fill_(typical if typical > 0 else 1.0)

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=step, weight_decay=2 * decay)

    def _similarity(self, points: Tensor) -> Tensor:
        squared = points.square().sum(1, keepdim=True) + self.landmarks.square().sum(1)
        squared = (squared - 2 * points @ self.landmarks.T).clamp_min(0)
        return (squared / (-2 * self.bandwidth**2)).exp()


class LinearMap(nn.Module):
    """Projections x W^T on p directions; rows of W have unit norm and are trained by gradient steps along the
    sphere."""

    usual_step = 0.1

    def __init__(self, dimension: int, features: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(features, dimension))

    def forward(self, points: Tensor) -> Tensor:
        return points @ self.weights.T

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        drawn = torch.from_numpy(generator.normal(size=self.weights.shape)).to(self.weights)
        with torch.no_grad():
            self.weights.copy_(nn.functional.normalize(drawn, dim=1))

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        """Gradient steps along the sphere; `decay` is ignored."""
        return SphereDescent(self.parameters(), step)


class Perceptron(nn.Sequential):
    """Hidden layers with ReLU activations and a linear output layer; trained by Adam."""

    usual_step = 1e-3

    def __init__(self, dimension: int, hidden: tuple[int, ...] = (64,), features: int = 32) -> None:
        widths = (dimension, *hidden)
        layers = [layer for before, after in pairwise(widths) for layer in (nn.Linear(before, after), nn.ReLU())]
        super().__init__(*layers, nn.Linear(widths[-1], features))

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        """Initialise weights by He's normal distribution, and biases with zero."""
        for layer in self:
            if isinstance(layer, nn.Linear):
                drawn = generator.normal(size=layer.weight.shape) * (2 / layer.in_features) ** 0.5
                with torch.no_grad():
                    layer.weight.copy_(torch.from_numpy(drawn))
                    layer.bias.zero_()

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=step, weight_decay=2 * decay)
