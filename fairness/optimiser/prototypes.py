"""Prototypes of fair clusters, and the costs of points at them (thesis Table 3.1)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fairness.objectives import Kind
from fairness.optimiser.points import Cost, Moments, Points

_PAIRS = 1 << 23
"""Number of distances between points and candidates computed in an update of medoids, if that many exist."""

_EMPTY = 1e-8
"""Soft size, as a share of the mean size, below which a cluster keeps its prototype."""


class Rule(Protocol):
    """How prototypes follow from assignments.

    Attributes:
        reads_assignments: whether the update reads S0 itself, not only its moments.
        are_points: whether prototypes are rows of the data.
    """

    reads_assignments: ClassVar[bool]
    are_points: ClassVar[bool]

    @property
    def ending(self) -> "Rule":
        """The rule of the result, which is initialised by this rule."""
        ...

    def begin(self, points: Points, logs: list[Tensor], prototypes: Tensor, moments: Moments) -> Tensor:
        """(K, D) prototypes of S0, given prototypes (K, D) of the initialising rule."""
        ...

    def cost(self, prototypes: Tensor) -> Cost:
        """Costs at prototypes (K, D)."""
        ...

    def update(self, points: Points, logs: list[Tensor], prototypes: Tensor, moments: Moments) -> Tensor:
        """(K, D) prototypes of S0, float64, with <S0, a> at most that of the previous ones."""
        ...

    def spread(self, points: Points) -> float:
        """Upper bound on the differences of costs, for points relative to their mean."""
        ...

    def scatter(self, points: Points) -> float:
        """Cost of all points at a single prototype, their mean, to which they are relative."""
        ...


@dataclass(frozen=True)
class SquaredDistances:
    """a_pk = ||x_p - c_k||^2."""

    prototypes: Tensor

    def into(self, out: Tensor, rows: Tensor, norms: Tensor) -> Tensor | None:
        centres = self.prototypes.to(rows)
        torch.addmm(centres.square().sum(dim=1, keepdim=True), centres, rows.T, alpha=-2, out=out)
        return norms


@dataclass(frozen=True)
class Distances:
    """a_pk = ||x_p - c_k||, not squared."""

    prototypes: Tensor

    def into(self, out: Tensor, rows: Tensor, norms: Tensor) -> Tensor | None:
        SquaredDistances(self.prototypes).into(out, rows, norms)
        out.add_(norms).clamp_(min=0).sqrt_()
        return None


@dataclass(frozen=True)
class Means:
    """c_k = X' S_k / n_k, which minimise the sum of squared distances."""

    reads_assignments: ClassVar[bool] = False
    are_points: ClassVar[bool] = False

    @property
    def ending(self) -> Rule:
        return self

    def cost(self, prototypes: Tensor) -> Cost:
        return SquaredDistances(prototypes)

    def begin(self, points: Points, logs: list[Tensor], prototypes: Tensor, moments: Moments) -> Tensor:
        return self.update(points, logs, prototypes, moments)

    def update(self, points: Points, logs: list[Tensor], prototypes: Tensor, moments: Moments) -> Tensor:
        mass = moments.counts.sum(dim=0)[:, None]
        nonempty = mass > _EMPTY * points.count / points.clusters
        return torch.where(nonempty, moments.sums / mass.clamp_min(1e-300), prototypes)

    def spread(self, points: Points) -> float:
        return 4 * points.largest

    def scatter(self, points: Points) -> float:
        return points.squared_lengths


@dataclass(frozen=True)
class GeometricMedians:
    """c_k with the lowest sum of distances, by Weiszfeld's steps with the correction of Vardi and Zhang (2000).

    A step is one sweep over the points and never raises the sum; an update returns the best iterate.

    Attributes:
        steps: maximum number of steps of an update.
        tolerance: relative decrease of the sum below which an update stops.
    """

    reads_assignments: ClassVar[bool] = True
    are_points: ClassVar[bool] = False

    steps: int = 10
    tolerance: float = 1e-6

    @property
    def ending(self) -> Rule:
        return Medoids()

    def cost(self, prototypes: Tensor) -> Cost:
        return Distances(prototypes)

    def begin(self, points: Points, logs: list[Tensor], prototypes: Tensor, moments: Moments) -> Tensor:
        return self.update(points, logs, prototypes, moments)

    def update(self, points: Points, logs: list[Tensor], prototypes: Tensor, moments: Moments) -> Tensor:
        mass = moments.counts.sum(dim=0)
        nonempty = mass > _EMPTY * points.count / points.clusters
        best, least = prototypes, torch.full_like(mass, torch.inf)
        iterate = prototypes
        for _ in range(self.steps):
            costs, new = weiszfeld(points, logs, iterate)
            better = nonempty & (costs < least)
            fell = float((least - costs)[better].sum())
            best, least = torch.where(better[:, None], iterate, best), torch.where(better, costs, least)
            if fell <= self.tolerance * float(costs.sum()):
                break
            iterate = torch.where(nonempty[:, None], new, best)
        return best

    def spread(self, points: Points) -> float:
        return 2 * math.sqrt(points.largest)

    def scatter(self, points: Points) -> float:
        return points.lengths


@dataclass(frozen=True)
class Medoids:
    """c_k is the point of the cluster with the lowest sum of distances, weighted by S0.

    Candidates are the points nearest to the geometric median; the previous medoid is kept if none is better.

    Attributes:
        least: minimum number of candidates per cluster; more if there are few points.
    """

    reads_assignments: ClassVar[bool] = True
    are_points: ClassVar[bool] = True

    least: int = 64

    @property
    def ending(self) -> Rule:
        return self

    def cost(self, prototypes: Tensor) -> Cost:
        return Distances(prototypes)

    def begin(self, points: Points, logs: list[Tensor], prototypes: Tensor, moments: Moments) -> Tensor:
        labels, count = points.labels(logs), max(self.least, _PAIRS // points.count)
        medians = _ROUGHLY.update(points, logs, prototypes, moments)
        indices, rows = points.nearest(labels, medians, count)
        sums = points.distances(labels, rows).masked_fill(indices < 0, torch.inf)
        medoids = rows[torch.arange(len(rows)), sums.argmin(dim=1)].to(prototypes)
        return torch.where((indices[:, :1] < 0), prototypes, medoids)

    def update(self, points: Points, logs: list[Tensor], prototypes: Tensor, moments: Moments) -> Tensor:
        medoids = self.begin(points, logs, prototypes, moments)
        costs = [points.sums(logs, Paid(self.cost(centres)))[0] for centres in (prototypes, medoids)]
        return torch.where((costs[1] < costs[0])[:, None], medoids, prototypes)

    def spread(self, points: Points) -> float:
        return 2 * math.sqrt(points.largest)

    def scatter(self, points: Points) -> float:
        return points.lengths


RULES: dict[Kind, Rule] = {"kmeans": Means(), "kmedian": GeometricMedians()}
"""Rules by the objective that they minimise."""


_ROUGHLY = GeometricMedians(tolerance=1e-4)
"""Finds approximate geometric medians, near which medoids are searched."""


@dataclass(frozen=True)
class Paid:
    """Sums of costs by cluster."""

    cost: Cost

    def __call__(self, rows: Tensor, norms: Tensor, s: Tensor, room: Tensor) -> tuple[Tensor]:
        """(K,) sums of s a."""
        left_out = self.cost.into(room, rows, norms)
        return (torch.linalg.vecdot(s, room if left_out is None else room.add_(left_out)),)


def weiszfeld(points: Points, logs: list[Tensor], medians: Tensor) -> tuple[Tensor, Tensor]:
    """(K,) sums of s_pk ||x_p - y_k|| at medians y (K, D), and the medians after one step; float64.

    The step of Vardi and Zhang (2000) is y+ = (1 - h) T + h y. T is the mean of the points that are not at y, weighted
    by s / d, and h = min(1, mass at y / ||sum of s / d (x - y)||).
    """
    # Points closer than this coincide with the median, up to rounding.
    radius = (8 * torch.finfo(points.dtype).eps * points.largest) ** 0.5
    totals, pulls, at_median, sums = points.sums(logs, Pulls(medians, radius))
    pull = (sums - pulls[:, None] * medians).norm(dim=1)
    fraction = (at_median / pull.clamp_min(1e-300)).clamp_max(1.0)[:, None]
    means = sums / pulls[:, None].clamp_min(1e-300)
    return totals, torch.where(pulls[:, None] > 0, (1 - fraction) * means + fraction * medians, medians)


@dataclass(frozen=True)
class Pulls:
    """Weiszfeld sums at medians.

    Attributes:
        medians: (K, D) y.
        same: distance up to which a point counts as coincident.
    """

    medians: Tensor
    same: float

    def __call__(self, rows: Tensor, norms: Tensor, s: Tensor, room: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sums of s d (K,), of s / d (K,), of s over coincident points (K,), and of s / d x (K, D)."""
        Distances(self.medians).into(room, rows, norms)
        totals = torch.linalg.vecdot(s, room)
        at_median = room <= self.same
        mass_there = (s * at_median).sum(dim=1)
        weights = s.div_(room.clamp_(min=self.same or 1.0)).masked_fill_(at_median, 0.0)
        return totals, weights.sum(dim=1), mass_there, weights @ rows
