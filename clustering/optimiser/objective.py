"""The objective of a batch of problems, which `clustering.optimiser.descent` minimises.

R(S) = <S, cost> + sum_t f_t(S) + T <S, log S>
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

_FLOOR = 1e-12  # lower bound of the probabilities of a warm start, since saturated rows would hardly move if rho > 0
_SMALL = 1 << 15  # up to this number of entries, sums use the precision of the entries
_AT_ONCE = 1 << 22  # number of entries summed at a time: 16 MiB in float32


class Term(Protocol):
    """A differentiable term f of the objective, over (B, N, K) assignments."""

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        """f (B,) and its gradient (B, N, K), which share the expensive product."""
        ...

    def curvature(self, assignments: Tensor) -> Tensor:
        """Unit of the proximal weight of each row, broadcastable to (B, N); >= 0."""
        ...

    def select(self, problems: Tensor) -> "Term":
        """The term for a subset of the problems, given by indices."""
        ...


class State(NamedTuple):
    """State of the problems.

    Classes come before points, (B, K, N): softmax over a strided axis is vectorised over the points, which for few
    classes is ten times faster than over the last axis.
    """

    L: Tensor  # log S
    S: Tensor
    G: Tensor  # gradient of the cost and the terms
    R: Tensor  # (B,) float64
    size: Tensor  # (B,) sum of the absolute summands of R, to which its rounding error is proportional


@dataclass(frozen=True)
class Objective:
    """The objective of a batch, with classes before points."""

    cost: Tensor  # (B, K, N)
    terms: Sequence[Term]
    temperature: float
    free: Tensor | None = None  # (B, 1, N), False in clamped rows
    one_hot: Tensor | None = None  # (B, K, N), the clamped rows

    @classmethod
    def of(
        cls, cost: Tensor, terms: Sequence[Term], clamp: tuple[Tensor, Tensor] | None, temperature: float
    ) -> "Objective":
        cost = cost.mT.contiguous()
        plain = cls(cost, terms, temperature)
        if clamp is None:
            return plain
        mask, labels = clamp
        classes = torch.arange(cost.shape[1], device=cost.device)[:, None]
        return replace(plain, free=~mask, one_hot=((labels == classes) & mask).to(cost.dtype))

    def select(self, problems: Tensor) -> "Objective":
        parts = (None if part is None else part[problems] for part in (self.free, self.one_hot))
        terms = [term.select(problems) for term in self.terms]
        return Objective(self.cost[problems], terms, self.temperature, *parts)

    def start(self, start: Tensor | None) -> Tensor:
        if start is None:
            return torch.log_softmax(self.cost / -self.temperature, dim=1)
        return torch.log_softmax(start.reshape(self.cost.mT.shape).mT.clamp_min(_FLOOR).log(), dim=1)

    def at(self, L: Tensor) -> State:
        """The state at log-assignments L, which it takes over without a copy; one product per term."""
        S = L.exp()
        if self.free is not None and self.one_hot is not None:
            L *= self.free
            S = S.mul_(self.free).add_(self.one_hot)
        entropy, linear = inner(S, L), inner(S, self.cost)
        R = torch.add(linear.double(), entropy, alpha=self.temperature)
        size = torch.sub(linear.abs(), entropy, alpha=self.temperature)  # T <S, log S> is never positive
        G = self.cost
        for term in self.terms:
            value, gradient = term.value_and_gradient(S.mT)
            G, R, size = G + gradient.mT, R + value, size + value.abs()
        return State(L, S, G, R, size)

    def rho(self, state: State, kappa: Tensor) -> Tensor:
        """(B, 1, N) or (B, 1, 1) proximal weights."""
        unit = sum((term.curvature(state.S.mT) for term in self.terms), state.S.new_zeros(1, 1))
        return (kappa[:, None].to(state.S.dtype) * unit)[:, None]

    def step(self, state: State, rho: Tensor | None) -> Tensor:
        """Log-assignments after one step; `rho` None is the pure step."""
        if rho is None:
            return torch.log_softmax(state.G / -self.temperature, dim=1)
        return torch.log_softmax((rho * state.L).sub_(state.G).div_(self.temperature + rho), dim=1)

    def predicted(self, state: State, L: Tensor, rho: Tensor | None) -> Tensor:
        """(B,) change of the surrogate by the step to L, -sum_p (T + rho_p) KL(s_p || s_p+) <= 0."""
        rise = L - state.L if self.free is None else (L - state.L).mul_(self.free)
        if rho is not None:
            return inner(state.S, rise.mul_(self.temperature + rho)).clamp_max(0)
        return inner(state.S, rise).clamp_max(0) * self.temperature

    def gap(self, state: State) -> Tensor:
        """(B,) <G, S> + T <S, L> + T sum_p logsumexp(-G_p / T)."""
        T, at_once = self.temperature, max(1, _AT_ONCE // state.S.shape[1])  # little memory for large problems
        parts = [
            (S * (G + T * L)).sum(1) + T * torch.logsumexp(-G / T, dim=1)
            for L, S, G in zip(*(torch.split(values, at_once, dim=2) for values in state[:3]), strict=True)
        ]
        excess = torch.cat(parts, dim=1)
        excess = excess if self.free is None else excess * self.free[:, 0]
        return excess.sum(1, dtype=torch.float64).clamp_min(0)

    def rounding(self, state: State) -> Tensor:
        """(B,) bound on the rounding error of R."""
        return allowance(state.size, state.S.dtype)


def allowance(size: Tensor, dtype: torch.dtype) -> Tensor:
    """Bound on the rounding error of a sum with this sum of absolute summands: 64 units in float64, 8 in float32."""
    units = 64 if dtype == torch.float64 else 8
    return (size + 1) * (units * torch.finfo(dtype).eps)


def inner(a: Tensor, b: Tensor) -> Tensor:
    """(B,) inner products <a, b> of (B, K, N) tensors, in float64 for large ones.

    In small problems products are summed in their own precision, which is two to three times faster: sums of some ten
    thousand float32 products, in vector lanes, have an error of about one unit of rounding of the sum of their sizes,
    well within the allowance of `Objective.rounding`. In larger problems this applies to blocks, whose sums are added
    in float64.
    """
    if a.shape[1] * a.shape[2] <= _SMALL:
        return (a * b).sum((1, 2))
    a, b = a.flatten(1), b.flatten(1)
    split = a.shape[1] // _SMALL * _SMALL
    parts = torch.linalg.vecdot(a[:, :split].view(len(a), -1, _SMALL), b[:, :split].view(len(b), -1, _SMALL))
    total: Tensor = parts.sum(1, dtype=torch.float64) + torch.linalg.vecdot(a[:, split:], b[:, split:])
    return total
