"""The objective of a batch of problems, of which `clustering.descent` is the optimiser.

R(S) = <S, cost> + sum_t f_t(S) + T <S, log S>
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

_FLOOR = 1e-12  # of a warm start's probabilities: rows saturated earlier would hardly move again when rho > 0
_SMALL = 4096  # entries of a problem that are summed in their own precision


class Term(Protocol):
    """A differentiable term f of the objective, over (B, N, K) assignments."""

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        """f (B,) and its gradient (B, N, K); together, because they share the expensive product."""
        ...

    def curvature(self, assignments: Tensor) -> Tensor:
        """Unit in which the proximal weight of each row is counted, broadcastable to (B, N); >= 0."""
        ...

    def select(self, problems: Tensor) -> "Term":
        """The term of some problems of the batch, given by their indices."""
        ...


class State(NamedTuple):
    """Where the problems stand. Classes come before points, (B, K, N): softmax over a strided axis is vectorised
    over the points, which for few classes is ten times faster than over the last axis."""

    L: Tensor  # log S
    S: Tensor
    G: Tensor  # gradient of the cost and the terms
    R: Tensor  # (B,) float64
    size: Tensor  # (B,) sum of the absolute parts of R: the unit of its rounding error


@dataclass(frozen=True)
class Objective:
    """The objective of a batch, with classes before points."""

    cost: Tensor  # (B, K, N)
    terms: Sequence[Term]
    temperature: float
    smallest_rho: Tensor  # (B,); at temperature 0 the step divides by rho alone
    free: Tensor | None = None  # (B, 1, N), False in clamped rows
    one_hot: Tensor | None = None  # (B, K, N), of the clamped rows

    @classmethod
    def of(
        cls, cost: Tensor, terms: Sequence[Term], clamp: tuple[Tensor, Tensor] | None, temperature: float
    ) -> "Objective":
        smallest = 1e-9 * (cost.amax((1, 2)) - cost.amin((1, 2))).clamp_min(1e-30)
        plain = cls(cost.mT.contiguous(), terms, temperature, smallest * (temperature == 0))
        if clamp is None:
            return plain
        mask, labels = clamp
        classes = torch.arange(cost.shape[-1], device=cost.device)[:, None]
        return replace(plain, free=~mask, one_hot=((labels == classes) & mask).to(cost.dtype))

    def select(self, problems: Tensor) -> "Objective":
        parts = (None if part is None else part[problems] for part in (self.smallest_rho, self.free, self.one_hot))
        terms = [term.select(problems) for term in self.terms]
        return Objective(self.cost[problems], terms, self.temperature, *parts)  # type: ignore[arg-type]

    def start(self, start: Tensor | None) -> Tensor:
        if start is None:
            return torch.log_softmax(-self.cost / (self.temperature or 1.0), dim=1)
        return torch.log_softmax(start.reshape(self.cost.mT.shape).mT.clamp_min(_FLOOR).log(), dim=1)

    def at(self, L: Tensor) -> State:
        """The state of log-assignments L: one product per term."""
        S = L.exp()
        if self.free is not None and self.one_hot is not None:
            L = L * self.free
            S = torch.where(self.free, S, self.one_hot)
        entropy = self.temperature * inner(S, L)
        linear = inner(S, self.cost)
        G, R, size = self.cost, linear + entropy, linear.abs() + entropy.abs() + 1.0
        for term in self.terms:
            value, gradient = term.value_and_gradient(S.mT)
            G, R, size = G + gradient.mT, R + value, size + value.abs()
        return State(L, S, G, R, size)

    def rho(self, now: State, kappa: Tensor) -> Tensor | None:
        """(B, 1, N) or (B, 1, 1) proximal weights; None where all are 0."""
        if self.temperature > 0 and not (self.terms and kappa.any()):
            return None
        unit = sum((term.curvature(now.S.mT) for term in self.terms), now.S.new_zeros(1, 1))
        rho = kappa[:, None].to(now.S.dtype) * unit
        return torch.maximum(rho, self.smallest_rho[:, None])[:, None]

    def step(self, now: State, rho: Tensor | float | None) -> Tensor:
        """Log-assignments after one step; `rho` None is the pure step."""
        if rho is None:
            return torch.log_softmax(now.G / -self.temperature, dim=1)
        return torch.log_softmax((rho * now.L - now.G) / (self.temperature + rho), dim=1)

    def predicted(self, now: State, L: Tensor, rho: Tensor | float | None) -> Tensor:
        """(B,) change of the surrogate by the step to L, -sum_p (T + rho_p) KL(s_p || s_p+) <= 0."""
        fall = now.L - L if self.free is None else (now.L - L) * self.free
        if isinstance(rho, Tensor):
            return -inner(now.S, (self.temperature + rho) * fall).clamp_min(0)
        return -(self.temperature + (rho or 0.0)) * inner(now.S, fall).clamp_min(0)

    def gap(self, now: State) -> Tensor:
        """(B,) <G, S> + T <S, L> + T sum_p logsumexp(-G_p / T), at T = 0 <G, S> - sum_p min_k G_pk."""
        T = self.temperature
        best = -T * torch.logsumexp(-now.G / T, dim=1, keepdim=True) if T > 0 else now.G.amin(1, keepdim=True)
        excess = (now.S * (now.G + T * now.L)).sum(1, keepdim=True) - best
        return _total(excess if self.free is None else excess * self.free).clamp_min(0)

    def rounding(self, now: State) -> Tensor:
        """(B,) how much rounding can move R: 64 units of the parts' sizes in float64, 8 in float32."""
        precision = torch.finfo(now.S.dtype).eps
        return (64 if now.S.dtype == torch.float64 else 8) * precision * now.size


def _total(products: Tensor) -> Tensor:
    """(B,) sum over classes and points, in float64."""
    return products.flatten(1).sum(1, dtype=torch.float64)


def inner(a: Tensor, b: Tensor) -> Tensor:
    """(B,) inner products <a, b> of (B, K, N) tensors, as float64.

    Of small problems the products are summed in their own precision, which is three times faster: a few thousand
    float32 products, summed in vector lanes, are off by about one unit of rounding of the sum of their sizes, well
    within the allowance of `Objective.rounding`. Larger ones are summed in float64.
    """
    if a.shape[1] * a.shape[2] <= _SMALL:
        small: Tensor = torch.linalg.vecdot(a.flatten(1), b.flatten(1))
        return small.double()
    return _total(a * b)
