"""Within-class scatter as a term of the objective, minimised over the prototypes."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clustering.optimiser.points import Points


@dataclass(frozen=True)
class Scatter:
    """f(S) = min over prototypes m of (weight / 2) sum_pk z_pk (||x_p - m_k||^2 - ||x_p||^2), z labelled rows, then S.

    The minimum is at the means of the classes, f(S) = -(weight / 2) sum_k mass_k ||m_k||^2. With a `prior`, each class
    has this much additional mass at the origin, which shrinks its mean. As a minimum of functions that are linear in S,
    f is concave, so the pure bound step lowers the objective. The gradient is weight / 2 times the squared distance to
    the mean, up to a constant per row: the step softmax(-gradient) is one round of soft K-means, means first. Summands
    that do not depend on S are omitted to reduce rounding; for the same reason the points should be centred at the
    origin.

    Attributes:
        points: labelled points first, then the points that S assigns.
        labelled: (B, K, n) weights of the labelled points in the classes; n may be 0.
        valid: (B, 1, N) number of points that a row of S represents, 0 in padding; None if it is one for all.
        weight: >= 0; multiplies the sum over points; (B, 1, 1) if it differs between problems.
        prior: >= 0, mass of every class at the origin.
    """

    points: Points
    labelled: Tensor
    valid: Tensor | None = None
    weight: float | Tensor = 1.0
    prior: float = 0.0

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        rows = assignments.mT if self.valid is None else assignments.mT * self.valid
        means = torch.cat([self.labelled, rows], dim=2)
        mass = means.sum(dim=2, keepdim=True) + self.prior
        means /= mass.clamp_min(1e-12)
        products = self.points.inner(means)
        norms = torch.linalg.vecdot(products, means)[..., None]
        value = (mass * norms * self.weight).sum((1, 2)).mul_(-0.5).double()
        gradient = torch.sub(0.5 * norms, products[:, :, self.labelled.shape[2] :]).mul_(self.weight)
        return value, (gradient if self.valid is None else gradient * self.valid).mT

    def curvature(self, assignments: Tensor) -> Tensor:
        return assignments.new_ones(1, 1)

    def select(self, problems: Tensor) -> "Scatter":
        valid = None if self.valid is None else self.valid[problems]
        weight = self.weight[problems] if isinstance(self.weight, Tensor) else self.weight
        labelled = self.labelled[problems]
        return replace(self, points=self.points.select(problems), labelled=labelled, valid=valid, weight=weight)
