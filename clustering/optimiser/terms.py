"""Terms of the objective, and the slope of Tsallis entropies."""

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from clustering.optimiser.objective import inner
from clustering.optimiser.points import Points

CURVATURE = 0.1
"""Curvature of a Laplacian term relative to its weight, the unit of its proximal weight."""

_FLOOR = 1e-6
"""Constant added to proportions inside the logarithm, as in the public code of PADDLE, so that empty classes can
refill."""

_LOWEST = math.log(1e-12)  # for alpha < 1 the slope at 0 is infinite


class Graph(Protocol):
    """Symmetric or directed weights between points, with zero diagonal."""

    @property
    def symmetric(self) -> bool: ...

    def __matmul__(self, assignments: Tensor) -> Tensor:
        """W S for (B, N, K) assignments."""
        ...

    def select(self, problems: Tensor) -> "Graph":
        """The graphs of a subset of the problems, given by indices."""
        ...


@dataclass(frozen=True)
class Laplacian:
    """The graph Laplacian term in its concave form, f(S) = -(weight / 2) <S, W S>.

    On one-hot rows it is (weight / 2) times the Laplacian sum_pq w_pq ||s_p - s_q||^2 / 2, up to a constant (thesis eq.
    4.4). `weight` is the lambda of the papers' update softmax(-a + lambda W S); it is 2 lambda of their objective,
    whose tangent was printed without its factor 2 (thesis eq. 2.13).

    Attributes:
        graph: weights W. A directed graph has this gradient but not this value, see the published step of `descend`.
        weight: >= 0, multiplies the sum over pairs, not the mean; (B, 1, 1) if it differs between problems.
    """

    graph: Graph
    weight: float | Tensor

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        gradient = (self.graph @ assignments).mul_(-self.weight)
        return 0.5 * inner(assignments.mT, gradient.mT), gradient

    def curvature(self, assignments: Tensor) -> Tensor:
        if isinstance(self.weight, Tensor):
            return CURVATURE * self.weight[:, :, 0]
        return assignments.new_full((1, 1), CURVATURE * self.weight)

    def select(self, problems: Tensor) -> "Laplacian":
        return Laplacian(self.graph.select(problems), _of(self.weight, problems))


def _of(part: Any, problems: Tensor) -> Any:
    """The part of a subset of the problems, if it differs between problems."""
    return part[problems] if isinstance(part, Tensor) else part


class _Concave:
    """A term for which the pure bound step lowers the objective, with rows of S that count `valid` times."""

    valid: Tensor | None

    def _rows(self, assignments: Tensor) -> Tensor:
        """(B, K, N) assignments times the points that they represent."""
        return assignments.mT if self.valid is None else assignments.mT * self.valid

    def _gradient(self, gradient: Tensor) -> Tensor:
        """(B, N, K) gradient from that of the represented points (B, K, N)."""
        return (gradient if self.valid is None else gradient * self.valid).mT

    def curvature(self, assignments: Tensor) -> Tensor:
        return assignments.new_ones(1, 1)

    def select(self, problems: Tensor) -> Self:
        return replace(self, valid=_of(self.valid, problems))  # type: ignore[type-var]


@dataclass(frozen=True)
class ProportionEntropy(_Concave):
    """f(S) = -weight N sum_k (u_k + e) log(u_k + e), with u the mean of the N rows of S and e = 1e-6.

    It is low if few classes are used (PADDLE, Martin et al. 2022, eq. 2). The gradient of a row is
    -weight (log(u_k + e) + 1).

    Attributes:
        weight: >= 0; multiplies N times the entropy.
        valid: (B, 1, N) 1, or 0 in padded rows, which do not count; None if there are none.
    """

    weight: float = 1.0
    valid: Tensor | None = None

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        rows = self._rows(assignments)
        count = rows.shape[2] if self.valid is None else self.valid.sum(2, keepdim=True)
        proportions = rows.sum(2, keepdim=True) / count + _FLOOR  # (B, K, 1)
        logs = proportions.log()
        value = (proportions * logs * (-self.weight * count)).sum((1, 2)).double()
        return value, self._gradient((-self.weight * (logs + 1)).expand_as(rows))

    def curvature(self, assignments: Tensor) -> Tensor:
        return assignments.new_full((1, 1), self.weight)


@dataclass(frozen=True)
class MixtureEvidence(_Concave):
    """f(S) = sum_k ( (dimensions / 2) log(prior + labelled_k + n_k) - log Gamma(concentration + n_k) ), n_k the mass of
    S in class k.

    It is the part of the negative log-evidence that depends on class sizes only, for a mixture with a symmetric
    Dirichlet prior on the proportions and Gaussian priors on the means, all integrated out (Bishop 2006, section 10.2).
    The gradient of a row is dimensions / (2 (prior + labelled_k + n_k)) - digamma(concentration + n_k).

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
        rows = self._rows(assignments)
        mass = rows.sum(dim=2, keepdim=True)  # (B, K, 1)
        proportions, means = self.concentration + mass, self.prior + self.labelled + mass
        value = (0.5 * self.dimensions * means.log() - torch.lgamma(proportions)).sum((1, 2)).double()
        return value, self._gradient((0.5 * self.dimensions / means - torch.digamma(proportions)).expand_as(rows))

    def select(self, problems: Tensor) -> Self:
        return replace(super().select(problems), labelled=self.labelled[problems])


@dataclass(frozen=True)
class Scatter(_Concave):
    """f(S) = min over prototypes m of (weight / 2) sum_pk z_pk (||x_p - m_k||^2 - ||x_p||^2), z labelled rows, then S.

    The minimum is at the means of the classes, f(S) = -(weight / 2) sum_k mass_k ||m_k||^2. With a `prior`, each class
    has this much additional mass at the origin, which shrinks its mean. As a minimum of functions that are linear in S,
    f is concave. The gradient is weight / 2 times the squared distance to the mean, up to a constant per row: the step
    softmax(-gradient) is one round of soft K-means, means first. Summands that do not depend on S are omitted to reduce
    rounding; for the same reason the points should be centred at the origin.

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
        means = torch.cat([self.labelled, self._rows(assignments)], dim=2)
        mass = means.sum(dim=2, keepdim=True) + self.prior
        means /= mass.clamp_min(1e-12)
        products = self.points.inner(means)
        norms = torch.linalg.vecdot(products, means)[..., None]
        value = (mass * norms * self.weight).sum((1, 2)).mul_(-0.5).double()
        gradient = torch.sub(0.5 * norms, products[:, :, self.labelled.shape[2] :]).mul_(self.weight)
        return value, self._gradient(gradient)

    def select(self, problems: Tensor) -> Self:
        part = super().select(problems)
        points, labelled = self.points.select(problems), self.labelled[problems]
        return replace(part, points=points, labelled=labelled, weight=_of(self.weight, problems))


def deformed_log(log_p: Tensor, alpha: float | Tensor = 1.0) -> Tensor:
    """ln_alpha p = (p^(alpha - 1) - 1) / (alpha - 1) from the natural log p, which is floored at log(1e-12); log p
    itself if alpha = 1. Accurate near alpha = 1.

    The Tsallis entropy is -<p, ln_alpha p>; its derivative by p_k is -alpha ln_alpha p_k up to a constant, which a
    softmax ignores.

    Args:
        log_p: tensor of any shape.
        alpha: > 0; a tensor (not all ones) if it differs between problems.
    """
    log_p = log_p.clamp_min(_LOWEST)
    if isinstance(alpha, float) and abs(alpha - 1) < 1e-6:
        return log_p
    return torch.expm1((alpha - 1) * log_p) / (alpha - 1)
