"""The dependence of the evidence of a Bayesian Gaussian mixture on class sizes, as a term of the objective."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class MixtureEvidence:
    """f(S) = sum_k ( (dimensions / 2) log(prior + labelled_k + n_k) - log Gamma(concentration + n_k) ), n_k the mass of
    S in class k.

    It is the part of the negative log-evidence that depends on class sizes only, for a mixture with a symmetric
    Dirichlet prior on the proportions and Gaussian priors on the means, all integrated out (Bishop 2006, section 10.2).
    It is concave, so the pure bound step lowers the objective. The gradient of a row is dimensions / (2 (prior +
    labelled_k + n_k)) - digamma(concentration + n_k).

    Attributes:
        labelled: (B, K, 1) mass of the labelled points, which count in the means but not in the proportions.
        valid: (B, 1, N) 1, or 0 in padded rows, which do not count; None if there are none.
        concentration: > 0, parameter of the Dirichlet prior; larger values favour equal proportions.
        prior: > 0, weight of the prior of a mean, in points.
        dimensions: number of dimensions of the means.
    """

    labelled: Tensor
    valid: Tensor | None = None
    concentration: float = 2.0
    prior: float = 10.0
    dimensions: int = 1

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        rows = assignments.mT if self.valid is None else assignments.mT * self.valid
        mass = rows.sum(dim=2, keepdim=True)  # (B, K, 1)
        proportions, means = self.concentration + mass, self.prior + self.labelled + mass
        value = (0.5 * self.dimensions * means.log() - torch.lgamma(proportions)).sum((1, 2)).double()
        gradient = (0.5 * self.dimensions / means - torch.digamma(proportions)).expand_as(rows)
        return value, (gradient if self.valid is None else gradient * self.valid).mT

    def curvature(self, assignments: Tensor) -> Tensor:
        return assignments.new_ones(1, 1)

    def select(self, problems: Tensor) -> "MixtureEvidence":
        valid = None if self.valid is None else self.valid[problems]
        return replace(self, labelled=self.labelled[problems], valid=valid)
