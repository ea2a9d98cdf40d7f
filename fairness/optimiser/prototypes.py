"""Prototypes of fair clusters, and what points pay for them (thesis Table 3.1)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fairness.objectives import Kind
from fairness.optimiser.store import Cost, Logs, Moments, Store

_PAIRS = 1 << 23
"""Distances of points to candidates that are computed at an update of medoids, where that many are enough."""

_EMPTY = 1e-8
"""Of the mean size: a cluster with less soft mass keeps its prototype."""


class Rule(Protocol):
    """How prototypes follow from assignments.

    Attributes:
        reads_assignments: whether from S0 itself, not from its moments alone.
        are_points: whether prototypes are among the points.
    """

    reads_assignments: ClassVar[bool]
    are_points: ClassVar[bool]

    @property
    def ending(self) -> "Rule":
        """The rule of the result, to which this one leads."""
        ...

    def begin(self, points: Store, logs: Logs, prototypes: Tensor, moments: Moments) -> Tensor:
        """(K, D) prototypes of S0, where those of before (K, D) are of a rule that leads to this one."""
        ...

    def cost(self, prototypes: Tensor) -> Cost:
        """What points pay for prototypes (K, D)."""
        ...

    def update(self, points: Store, logs: Logs, prototypes: Tensor, moments: Moments) -> Tensor:
        """(K, D) prototypes of S0, for which <S0, a> is no larger than for those of before; float64."""
        ...

    def spread(self, points: Store) -> float:
        """A bound on the differences of costs, of points counted from their mean."""
        ...

    def scatter(self, points: Store) -> float:
        """What all points pay for one prototype at their mean, from which they are counted."""
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

    def begin(self, points: Store, logs: Logs, prototypes: Tensor, moments: Moments) -> Tensor:
        return self.update(points, logs, prototypes, moments)

    def update(self, points: Store, logs: Logs, prototypes: Tensor, moments: Moments) -> Tensor:
        mass = moments.counts.sum(dim=0)[:, None]
        some = mass > _EMPTY * points.count / points.clusters
        return torch.where(some, moments.sums / mass.clamp_min(1e-300), prototypes)

    def spread(self, points: Store) -> float:
        return 4 * points.largest

    def scatter(self, points: Store) -> float:
        return points.squared_lengths


@dataclass(frozen=True)
class GeometricMedians:
    """c_k of the least sum of distances, by steps of Weiszfeld with the correction of Vardi and Zhang (2000).

    A step is one sweep over the points, and none raises the sum; an update takes the best of what it has seen.

    Attributes:
        steps: of an update, at most.
        tolerance: an update ends when the sum falls by no more than this share of it.
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

    def begin(self, points: Store, logs: Logs, prototypes: Tensor, moments: Moments) -> Tensor:
        return self.update(points, logs, prototypes, moments)

    def update(self, points: Store, logs: Logs, prototypes: Tensor, moments: Moments) -> Tensor:
        mass = moments.counts.sum(dim=0)
        some = mass > _EMPTY * points.count / points.clusters
        best, least = prototypes, torch.full_like(mass, torch.inf)
        tried = prototypes
        for _ in range(self.steps):
            costs, new = weiszfeld(points, logs, tried)
            better = some & (costs < least)
            fell = float((least - costs)[better].sum())
            best, least = torch.where(better[:, None], tried, best), torch.where(better, costs, least)
            if fell <= self.tolerance * float(costs.sum()):
                break
            tried = torch.where(some[:, None], new, best)
        return best

    def spread(self, points: Store) -> float:
        return 2 * math.sqrt(points.largest)

    def scatter(self, points: Store) -> float:
        return points.lengths


@dataclass(frozen=True)
class Medoids:
    """c_k the point of the cluster with the least sum of distances, looked for among those nearest to the geometric
    median; that of before where none is better. A sum weighs points by S0.

    Attributes:
        least: points that are tried in each cluster, more where points are few.
    """

    reads_assignments: ClassVar[bool] = True
    are_points: ClassVar[bool] = True

    least: int = 64

    @property
    def ending(self) -> Rule:
        return self

    def cost(self, prototypes: Tensor) -> Cost:
        return Distances(prototypes)

    def begin(self, points: Store, logs: Logs, prototypes: Tensor, moments: Moments) -> Tensor:
        labels, count = points.labels(logs), max(self.least, _PAIRS // points.count)
        medians = _ROUGHLY.update(points, logs, prototypes, moments)
        indices, rows = points.nearest(labels, medians, count)
        sums = points.distances(labels, rows).masked_fill(indices < 0, torch.inf)
        found = rows[torch.arange(len(rows)), sums.argmin(dim=1)].to(prototypes)
        return torch.where((indices[:, :1] < 0), prototypes, found)

    def update(self, points: Store, logs: Logs, prototypes: Tensor, moments: Moments) -> Tensor:
        found = self.begin(points, logs, prototypes, moments)
        paid = [points.sums(logs, Paid(self.cost(tried)))[0] for tried in (prototypes, found)]
        return torch.where((paid[1] < paid[0])[:, None], found, prototypes)

    def spread(self, points: Store) -> float:
        return 2 * math.sqrt(points.largest)

    def scatter(self, points: Store) -> float:
        return points.lengths


RULES: dict[Kind, Rule] = {"kmeans": Means(), "kmedian": GeometricMedians()}
"""By the objective that they lower."""


_ROUGHLY = GeometricMedians(tolerance=1e-4)
"""Points near these are tried as medoids."""


@dataclass(frozen=True)
class Paid:
    """What points pay."""

    cost: Cost

    def __call__(self, rows: Tensor, norms: Tensor, s: Tensor, room: Tensor) -> tuple[Tensor]:
        """Sums of s a (K,)."""
        left_out = self.cost.into(room, rows, norms)
        return (torch.linalg.vecdot(s, room if left_out is None else room.add_(left_out)),)


def weiszfeld(points: Store, logs: Logs, medians: Tensor) -> tuple[Tensor, Tensor]:
    """(K,) sums of s_pk ||x_p - y_k|| at medians y (K, D), and the medians after one step; float64.

    The step of Vardi and Zhang (2000): y+ = (1 - h) T + h y, T the mean weighted by s / d of the points that are not at
    y, h = min(1, mass at y / ||sum of s / d (x - y)||).
    """
    # Distances below this are of points that stand at the median, up to rounding.
    same = (8 * torch.finfo(points.dtype).eps * points.largest) ** 0.5
    totals, pulls, here, sums = points.sums(logs, Pulls(medians, same))
    pull = (sums - pulls[:, None] * medians).norm(dim=1)
    held = (here / pull.clamp_min(1e-300)).clamp_max(1.0)[:, None]
    means = sums / pulls[:, None].clamp_min(1e-300)
    return totals, torch.where(pulls[:, None] > 0, (1 - held) * means + held * medians, medians)


@dataclass(frozen=True)
class Pulls:
    """How points pull at medians.

    Attributes:
        medians: (K, D) y.
        same: points no farther away stand there.
    """

    medians: Tensor
    same: float

    def __call__(self, rows: Tensor, norms: Tensor, s: Tensor, room: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sums of s d (K,), s / d (K,), s of points that stand there (K,), and s / d x (K, D)."""
        Distances(self.medians).into(room, rows, norms)
        totals = torch.linalg.vecdot(s, room)
        there = room <= self.same
        here = (s * there).sum(dim=1)
        weights = s.div_(room.clamp_(min=self.same or 1.0)).masked_fill_(there, 0.0)
        return totals, weights.sum(dim=1), here, weights @ rows
