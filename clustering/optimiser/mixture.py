"""What a Bayesian mixture of Gaussians pays for the sizes of its classes, as a term of the objective."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class MixtureEvidence:
    """f(S) = sum_k ( (dimensions / 2) log(prior + labelled_k + n_k) - log Gamma(concentration + n_k) ), n_k the mass of
    S in class k: of minus the log-evidence of a mixture the part that depends on the sizes alone, given a symmetric
    Dirichlet prior of the proportions and Gaussian ones of the means, all integrated out (Bishop 2006, section 10.2).

    Concave, so that the pure bound step lowers the objective. The gradient of a row is
    dimensions / (2 (prior + labelled_k + n_k)) - digamma(concentration + n_k).

    Attributes:
        labelled: (B, K, 1) mass of the labelled points; they count in the means, not in the proportions.
        valid: (B, 1, N) 1, and 0 in padded rows, which do not count; None where all are real.
        concentration: > 0, of the Dirichlet prior; the larger, the more equal the proportions.
        prior: > 0, how many points the prior of a mean weighs as much as.
        dimensions: of the space that the means vary in.
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
