"""The entropy of the class proportions, as a term of the objective."""

from dataclasses import dataclass, replace

from torch import Tensor

_FLOOR = 1e-6
"""Constant added to proportions inside the logarithm, as in the public code of PADDLE, so that empty classes can
refill."""


@dataclass(frozen=True)
class ProportionEntropy:
    """f(S) = -weight N sum_k (u_k + e) log(u_k + e), with u the mean of the N rows of S and e = 1e-6.

    It is low if few classes are used (PADDLE, Martin et al. 2022, eq. 2). It is concave, so the pure bound step lowers
    the objective. The gradient of a row is -weight (log(u_k + e) + 1).

    Attributes:
        weight: >= 0; multiplies N times the entropy.
        valid: (B, 1, N) 1, or 0 in padded rows, which do not count; None if there are none.
    """

    weight: float = 1.0
    valid: Tensor | None = None

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        rows = assignments.mT
        count: Tensor | int = rows.shape[2]
        if self.valid is not None:
            rows, count = rows * self.valid, self.valid.sum(2, keepdim=True)
        proportions = rows.sum(2, keepdim=True) / count + _FLOOR  # (B, K, 1)
        logs = proportions.log()
        value = (proportions * logs * (-self.weight * count)).sum((1, 2)).double()
        gradient = (-self.weight * (logs + 1)).expand_as(rows)
        return value, (gradient if self.valid is None else gradient * self.valid).mT

    def curvature(self, assignments: Tensor) -> Tensor:
        return assignments.new_full((1, 1), self.weight)

    def select(self, problems: Tensor) -> "ProportionEntropy":
        return self if self.valid is None else replace(self, valid=self.valid[problems])
