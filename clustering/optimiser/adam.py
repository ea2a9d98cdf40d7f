"""Adam (Kingma and Ba 2015) for a batch of problems: step sizes are per entry, so problems in one tensor are
independent."""

import math

import torch
from torch import Tensor


class Adam:
    """Adam with its usual constants. `parameters` is updated in place.

    Args:
        parameters: a tensor of any shape.
        rate: step size; an entry moves by about this much per step.
        together: whether entries along the last dimension share a second moment, the mean of theirs, which makes the
            steps equivariant to rotations.
    """

    def __init__(
        self,
        parameters: Tensor,
        rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        together: bool = False,
    ) -> None:
        self.parameters, self.rate, self.betas, self.epsilon = parameters, rate, betas, epsilon
        self.together = together
        self.mean = torch.zeros_like(parameters)
        self.square = torch.zeros_like(parameters[..., :1] if together else parameters)
        self.steps = 0

    def step(self, gradient: Tensor) -> None:
        """Take one step along the negative gradient."""
        first, second = self.betas
        self.steps += 1
        self.mean.lerp_(gradient, 1 - first)
        if self.together:
            self.square.lerp_(gradient.square().mean(-1, keepdim=True), 1 - second)
        else:
            self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        # Both averages start at 0, so their bias is corrected; that of the second includes epsilon.
        bias = math.sqrt(1 - second**self.steps)
        scale = self.square.sqrt().add_(self.epsilon * bias)
        self.parameters.addcdiv_(self.mean, scale, value=-self.rate * bias / (1 - first**self.steps))
