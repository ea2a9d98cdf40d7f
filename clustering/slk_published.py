"""SLK as its authors' public code of June 2020 runs it: its first prototypes, its two stop rules, and its end where a
cluster loses its last point.

Unlike `clustering.slk_fit.run`, no step is guarded. The inner loop stops by <S, log S> + F - weight <S, W S>, though its
update lowers this with half the weight; the outer loop by F - weight <S, W S>. Modes follow the likeliest clusters.
"""

import functools
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clustering.alternation import Clamp, Outcome
from clustering.centres import Rows, best_by_members
from clustering.sparse_graph import SparseGraph
from clustering.starts import indicators
from clustering.trials import Trials

Prototype = Literal["mean", "mean_shift", "byproduct"]

UPDATES, SWEEPS, SHIFTS = 100, 1000, 1000
"""Updates of the prototypes, of the assignments between two of them, and steps of a mean-shift, at most."""

_OUTER, _INNER, _SHIFT = 1e-5, 1e-6, 1e-5
"""Relative changes at which each of these ends; the first two from the third step on."""


_EXACT = 25_000
"""Members among which the densest is found by all pairs."""


def _kernel(squared: Tensor, variance: float) -> Tensor:
    return torch.exp(squared / (-2 * variance))


class _Problem(NamedTuple):
    """The data of one trial, in double precision: with less, sums are rounded by more than the stop rules allow."""

    prototype: Prototype
    rows: Rows
    graph: SparseGraph
    weight: float
    variance: float
    clamp: Clamp | None

    def unary(self, prototypes: Tensor) -> Tensor:
        """(K, N) a, what is to be small: squared distances to means, less the kernel at modes."""
        squared = self.rows.squared_distances(prototypes[None])[0]
        return squared if self.prototype == "mean" else -_kernel(squared, self.variance)

    def neighbours(self, S: Tensor) -> Tensor:
        """(K, N) W S."""
        return (self.graph @ S.mT[None])[0].mT

    def softmax(self, logits: Tensor) -> Tensor:
        S = torch.softmax(logits, dim=0)
        if self.clamp is not None:
            mask, labels = self.clamp
            S[:, mask] = indicators(labels[None, mask], len(S), S.dtype)[0]
        return S


def run_published(
    prototype: Prototype,
    rows: Rows,
    graph: SparseGraph,
    seeds: Tensor,
    weights: list[float],
    variance: float,
    clamp: Clamp | None = None,
) -> Trials:
    """One trial for each of the seeds, with its weight.

    Args:
        prototype: what stands for a cluster.
        rows: N points.
        graph: W.
        seeds: (T, K, D).
        weights: T times lambda of the update softmax(-a + lambda W S).
        variance: sigma^2 of the kernel.
        clamp: (mask (N,), labels (N,)) of known points.
    """
    exact = Rows(rows.values.double(), None if rows.origin is None else rows.origin.double())
    double = graph.to(torch.float64)
    each = [
        _alternate(_Problem(prototype, exact, double, weight, variance, clamp), seed.double())
        for seed, weight in zip(seeds, weights, strict=True)
    ]
    length = max(len(one.trace) for one in each)
    S, M, objectives, iterations, outcomes, traces, movements = zip(*each, strict=True)
    dtype = seeds.dtype
    return Trials(
        torch.stack(S).mT.to(dtype),
        torch.stack(M).to(dtype),
        torch.stack(objectives),
        torch.tensor(iterations),
        torch.zeros(len(each), dtype=torch.int64),
        torch.tensor(outcomes),
        torch.stack([_padded(trace, length) for trace in traces], dim=1),
        torch.stack([_padded(moved, length) for moved in movements], dim=1),
    )


def _padded(values: Tensor, length: int) -> Tensor:
    return torch.cat([values, values.new_full((length - len(values), *values.shape[1:]), torch.nan)])


class _Trial(NamedTuple):
    """Where one trial ended; `assignments` is (K, N)."""

    assignments: Tensor
    prototypes: Tensor
    objective: Tensor
    iterations: int
    outcome: int
    trace: Tensor
    movements: Tensor


def _alternate(problem: _Problem, seeds: Tensor) -> _Trial:
    clusters = len(seeds)
    S = indicators(problem.rows.squared_distances(seeds[None])[0].argmin(dim=0)[None], clusters, seeds.dtype)[0]
    S = problem.softmax(1e3 * S) if problem.clamp is not None else S  # the known points are where they are known to be
    M, energy, outcome = seeds, torch.inf, Outcome.MAX_ITERATIONS
    trace, movements = [], []
    for update in range(UPDATES):
        new = _prototypes(problem, M, S, first=update == 0)
        a = problem.unary(new)
        found, near = _bound_steps(problem, a)
        movements.append((new - M).norm(dim=1))
        if len(found.argmax(dim=0).unique()) < clusters:
            outcome = Outcome.EMPTIED
            break
        M, S = new, found
        unary, pairs = (S * a).sum(), problem.weight * (S * near).sum()
        trace.append(unary + torch.special.xlogy(S, S).sum() - pairs / 2)
        last, energy = energy, float(unary - pairs)
        if update > 1 and abs(energy - last) <= _OUTER * abs(last):
            outcome = Outcome.CONVERGED
            break
    else:
        update += 1
    if not trace:
        a = problem.unary(M)
        trace.append((S * a).sum() - problem.weight / 2 * (S * problem.neighbours(S)).sum())
    count = len(trace)
    return _Trial(S, M, trace[-1], update + 1, int(outcome), torch.stack(trace), torch.stack(movements[:count]))


def _bound_steps(problem: _Problem, a: Tensor) -> tuple[Tensor, Tensor]:
    """S (K, N) of the prototypes with unary costs a, and W S."""
    S = problem.softmax(-a)
    near = problem.neighbours(S)
    energy = torch.inf
    for sweep in range(SWEEPS):
        S = problem.softmax(near.mul_(problem.weight).sub_(a))
        near = problem.neighbours(S)
        entropy = (S * S.clamp_min(1e-20).log()).sum()
        last, energy = energy, float(entropy + (S * a).sum() - problem.weight * (S * near).sum())
        if sweep > 1 and abs(energy - last) <= _INNER * abs(last):
            break
    return S, near


def _prototypes(problem: _Problem, M: Tensor, S: Tensor, *, first: bool) -> Tensor:
    """(K, D), of the likeliest clusters of the points; means, after the first, of the assignments."""
    members = indicators(S.argmax(dim=0)[None], len(M), S.dtype)
    if problem.prototype == "mean":
        return problem.rows.means(members if first else S[None])[0]
    if problem.prototype == "mean_shift":
        return _mean_shift(problem, M, members[0])
    if first:
        own = members > 0
        density = functools.partial(_kernel, variance=problem.variance)
        return problem.rows.at(best_by_members(problem.rows, own, density, references=_EXACT))[0]
    return problem.rows.at(S.argmax(dim=1))


def _mean_shift(problem: _Problem, M: Tensor, members: Tensor) -> Tensor:
    """Each mode from where it was, until its largest coordinate's change is a small share of its largest coordinate."""
    modes, left = M.clone(), torch.arange(len(M))
    for _ in range(SHIFTS):
        sums, density = problem.rows.shifted(modes[left], members[left], problem.variance)
        new = torch.where(density[:, None] > 0, sums / density[:, None].clamp_min(1e-300), modes[left])
        moved = (new - modes[left]).abs().amax(dim=1) >= _SHIFT * new.abs().amax(dim=1)
        modes[left] = new
        left = left[moved]
        if not len(left):
            break
    return modes
