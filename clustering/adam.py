"""Adam (Kingma and Ba 2015) for a batch of problems at once: each entry has a step size of its own, so problems that
share a tensor do not touch each other."""

import math

import torch
from torch import Tensor


class Adam:
    """Adam with its usual constants. `parameters` is updated in place.

    Args:
        parameters: a tensor of any shape.
        rate: step size; an entry moves by about so much a step.
    """

    def __init__(
        self, parameters: Tensor, rate: float, *, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8
    ) -> None:
        self.parameters, self.rate, self.betas, self.epsilon = parameters, rate, betas, epsilon
        self.mean, self.square = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.steps = 0

    def step(self, gradient: Tensor) -> None:
        """One step down the gradient."""
        first, second = self.betas
        self.steps += 1
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        # Both averages start at 0; their bias is divided out, of the second together with epsilon.
        bias = math.sqrt(1 - second**self.steps)
        scale = self.square.sqrt().add_(self.epsilon * bias)
        self.parameters.addcdiv_(self.mean, scale, value=-self.rate * bias / (1 - first**self.steps))
