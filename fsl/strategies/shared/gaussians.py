"""Gaussian classes around unit means, with diagonal covariances: the common part of TransCLIP and StatA."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from clustering.lengths import unit_rows
from clustering.optimiser.descent import descend
from clustering.optimiser.objective import Term
from fsl.episodes import Episodes, Predictions
from fsl.transforms import unit_features

WEIGHT = 1 / 50
"""Weight of the log-likelihood of a query in the objective, as in the public code of TransCLIP."""

SWEEPS = 5
"""Maximum number of sweeps per round."""

PUBLISHED_ROUNDS, ROUNDS = 10, 50
"""Number of rounds of the public codes, and maximum number of others."""

TOLERANCE = 1e-6
"""Relative change of the objective at which a task stops."""

CONFIDENT = 8
"""Number of queries per class from which the public code computes the first means."""

Start = Literal["text", "confident"]
"""First means: the features of the class names, or the mean of the eight most confident queries of each class."""

SMALLEST_VARIANCE = 1e-8
"""Lower bound of a variance, for unit vectors; only equal points reach it."""


class Gaussians(NamedTuple):
    """Means and variances of the classes.

    Attributes:
        means: (B, K, D).
        variances: (B, K or 1, D).
    """

    means: Tensor
    variances: Tensor

    def cost(self, points: Tensor, *, determinant: bool) -> Tensor:
        """(B, N, K) -log p_ik = sum_d (x_id - mu_kd)^2 / (2 sigma_kd^2), plus sum_d log(D sigma_kd^2) / 2 if
        `determinant`."""
        precisions = 1 / self.variances
        weighted = self.means * precisions
        constant = (self.means * weighted).sum(dim=2)
        if determinant:
            constant = constant + (self.variances * points.shape[2]).log().sum(dim=2)
        squares = torch.matmul(points.square(), precisions.mT)  # (B, N, K or 1)
        return (
            torch.baddbmm(squares.expand(-1, -1, weighted.shape[1]), points, weighted.mT, alpha=-2)
            .add_(constant[:, None])
            .mul_(0.5)
        )


class Moments(NamedTuple):
    """Sums over the points of each class.

    Attributes:
        mass: (B, K, 1) weight of the points.
        sums: (B, K, D) of weighted points.
        squares: (B, K, D) of weighted squares.
        counts: (B, K, 1) mass, or weight of the points whose likeliest class this is.
    """

    mass: Tensor
    sums: Tensor
    squares: Tensor
    counts: Tensor

    @classmethod
    def of(cls, points: Tensor, weights: Tensor, *, hard_counts: bool = False) -> "Moments":
        """Moments of (B, N, D) points with (B, N, K) weights."""
        mass = weights.sum(dim=1)[..., None]
        counts = mass
        if hard_counts:
            best = weights.max(dim=2)
            total = weights.sum(dim=2)
            counts = torch.zeros_like(mass[..., 0]).scatter_add_(1, best.indices, total)[..., None]
        return cls(mass, torch.bmm(weights.mT, points), torch.bmm(weights.mT, points.square()), counts)

    def scatter(self, means: Tensor) -> Tensor:
        """(B, K, D) weighted squared deviations from the means."""
        return (self.squares - 2 * means * self.sums + self.mass * means.square()).clamp_min(0)

    def averages(self, otherwise: Tensor) -> Tensor:
        """(B, K, D) weighted means; rows of `otherwise` for classes without mass."""
        empty = self.mass <= torch.finfo(self.mass.dtype).tiny
        return torch.where(empty, otherwise, self.sums / self.mass.clamp_min(torch.finfo(self.mass.dtype).tiny))


def first_means(episodes: Episodes, start: Start) -> Tensor:
    """(B, K, D) unit means: of the support, and for classes without support by the class names, see `Start`."""
    if start == "text" and episodes.text is not None:
        named = unit_features(episodes.text)
    else:
        probabilities = episodes.log_prior.exp()
        if episodes.query_mask is not None:
            probabilities = probabilities * episodes.query_mask[..., None]
        best = probabilities.topk(min(CONFIDENT, episodes.query_size), dim=1)
        chosen = torch.zeros_like(probabilities).scatter_(1, best.indices, best.values)
        named = unit_rows(torch.bmm(chosen.mT, unit_features(episodes.query)))
    if episodes.support_size == 0:
        return named
    one_hot = episodes.support_one_hot
    sums = torch.bmm(one_hot.mT, unit_features(episodes.support))
    return torch.where(one_hot.sum(dim=1)[..., None] > 0, unit_rows(sums), named)


def alternate_gaussians(
    episodes: Episodes,
    start: Gaussians,
    terms: Sequence[Term],
    update: Callable[[Gaussians, Moments], Gaussians],
    *,
    text_weight: float | Tensor,
    published: bool,
    floor: float = 0.0,
    support_weight: float | Tensor = 1.0,
    determinant: bool = True,
    hard_counts: bool = False,
    penalty: Callable[[Gaussians], Tensor] = lambda gaussians: torch.zeros(()),
) -> Predictions:
    """Alternate sweeps over the assignments Z of the queries and updates of the Gaussians; sweeps come last.

    Minimises sum_ik z_ik (-text_weight log yhat_ik - c_i log p_ik / 50) + <Z, log Z> + terms(Z) + penalty, where the
    assignments of support points are fixed, and c_i is 1 for a query. A task that has stopped keeps its assignments.

    Args:
        episodes: tasks with class names and features of unit length.
        start: the first Gaussians.
        terms: terms over support and queries, support first.
        update: new Gaussians from the current ones and the moments of the classes.
        text_weight: lambda, weight of the log-probabilities by class names; a number or (B, 1, 1).
        published: 10 rounds of unguarded sweeps, as in the public codes; otherwise guarded sweeps until the objective
            changes by less than `TOLERANCE`, in at most `ROUNDS` rounds.
        floor: constant added to the probabilities by class names inside the logarithm.
        support_weight: c_i of a support point; a number or (B, 1).
        determinant: whether the log-likelihood contains the log-determinant.
        hard_counts: whether the counts of a class are the points whose likeliest class it is.
        penalty: (B,) part of the objective that depends on the Gaussians only.

    Returns:
        Predictions; the trace holds the objective after the sweeps of each round.
    """
    points, first = episodes.features, episodes.support_size
    weights = episodes.valid.to(points.dtype)
    weights[:, :first] *= support_weight
    evidence = episodes.with_text(points.new_zeros(len(points), episodes.query_size, episodes.way), 1.0)
    if floor:
        evidence = -((-evidence).exp() + floor).log()
    text_cost = pad(text_weight * evidence, (0, 0, first, 0))
    assignments = torch.cat([episodes.support_one_hot, torch.softmax(episodes.log_prior, dim=2)], dim=1)
    gaussians, objectives = start, []
    active = torch.ones(len(points), dtype=torch.bool, device=points.device)
    iterations = active.new_zeros(len(points), dtype=torch.int64)
    before = torch.full_like(active, torch.inf, dtype=torch.float64)
    for last in [False] * (PUBLISHED_ROUNDS if published else ROUNDS) + [True]:
        cost = gaussians.cost(points, determinant=determinant)
        descent = descend(
            torch.addcmul(text_cost, cost, weights[..., None], value=WEIGHT),
            terms,
            start=assignments,
            clamp=episodes.known,
            step="published" if published else "monotone",
            max_iterations=SWEEPS,
            tolerance=None if published else 1e-7,
        )
        del cost
        assignments = torch.where(active[:, None, None], descent.assignments, assignments)
        objective = descent.objective.double() + penalty(gaussians)
        objectives.append(torch.where(active, objective, torch.nan))
        iterations += active
        if last:
            break
        if not published:
            active = active & ~((before - objective).abs() <= TOLERANCE * objective.abs())
            if not bool(active.any()):
                break
        before = objective
        gaussians = update(gaussians, Moments.of(points, assignments * weights[..., None], hard_counts=hard_counts))
    return Predictions(assignments[:, first:], iterations, torch.stack(objectives))
