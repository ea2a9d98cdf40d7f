"""Batches with labelled points of all classes, with linked points together with their partners, and with augmented
copies of images, which share the cluster of the original."""

import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch import Tensor
from torch.nn import functional

from clustering.constraints import Constraints
from clustering.foundation.streams import stream

Points = NDArray[np.int64]

_ANGLE = 15.0
"""Maximum rotation of a copy in degrees."""
_WIDTH = 0.2
"""Maximum relative change of its width."""
_SHIFT = 0.08
"""Maximum shift along each axis, as a share of the side."""
_ERASED = 0.35
"""Longest side of the erased rectangle, as a share of the side of the image."""


_PUT_OFF = 8
"""Number of linked sets that did not fit into a batch after which the batch counts as full."""


class Batch(NamedTuple):
    """Row numbers of the points in one step.

    Attributes:
        known: (l,) labelled points, followed by points with links.
        others: (u,) all other points.
    """

    known: Points
    others: Points

    def copied(self, count: int) -> "Batch":
        """The batch with each of the other points repeated `count` times."""
        return Batch(self.known, np.repeat(self.others, count))

    @property
    def points(self) -> Points:
        """(l + u,) known points first."""
        return np.concatenate(self)


def batches(
    known: Constraints, size: int, generator: np.random.Generator, *, max_share: float = 1.0, copies: int = 1
) -> Iterator[Batch]:
    """Endless batches of 2 `size` points at most.

    - Labelled points: all, or `size` of them, of each class its part; fewer of one that would be more than `max_share`
      of the batch.
    - Linked points without label: what `size` leaves beside those, but half of `size` at least. Where they are more, a
      set is drawn with all that its points are linked with, or, if that is more than there is room for, a connected
      part of it. They are a few less than there is room for where sets do not go in evenly.
    - Others: `size`, or what is left of 2 `size`.

    Each kind is traversed repeatedly in random order; a batch may continue into the next round.

    Args:
        known: labels and links of all N points.
        size: maximum size of half a batch.
        generator: random generator of the order.
        max_share: largest share of a cluster.
        copies: number of points as which each other point counts.
    """
    linked = np.flatnonzero(known.constrained & (known.labels < 0))
    others = np.flatnonzero(~known.constrained)
    labelled = min(int((known.labels >= 0).sum()), size)
    room = max(size - labelled, (size + 1) // 2)
    unknown = min(len(linked), room) + min(copies * len(others), size)
    labelled_draws = labelled_points(known.labels, size, generator, max_share=max_share, unknown=unknown)
    parties = _linked_points(known, linked, room, max(2, int(max_share * size)), generator)
    rest = _Rounds(others, generator)
    while True:
        part = np.concatenate([next(labelled_draws), next(parties)])
        yield Batch(part, rest.take(min(size, 2 * size - len(part)) // copies))


def labelled_points(
    labels: Points, size: int, generator: np.random.Generator, *, max_share: float = 1.0, unknown: int = 0
) -> Iterator[Points]:
    """Endlessly, all points of known label, or `size` of them: of each class its part, up to one more or less.

    Args:
        labels: (N,) -1 where unknown.
        size: the most points at a time.
        generator: of the order.
        max_share: greatest share of a class of these points and the unknown ones.
        unknown: how many points of unknown label come beside them.
    """
    points = np.flatnonzero(labels >= 0)
    classes, counts = np.unique(labels[points], return_counts=True)
    parts = _parts(counts, size, max_share, unknown)
    if np.array_equal(parts, counts):
        while True:
            yield points
    rounds = [_Rounds(points[labels[points] == label], generator) for label in classes]
    ends = np.concatenate([[0.0], np.cumsum(parts)]).round(9)
    while True:
        # One shift for all makes the sum exact, and each number the whole one below or above its part.
        numbers = np.diff(np.floor(ends + generator.random())).astype(int)
        yield np.concatenate([queue.take(number) for queue, number in zip(rounds, numbers, strict=True)])


def _parts(counts: Points, size: int, max_share: float, unknown: int) -> NDArray[np.float64]:
    """(C,) how many points of each class are drawn, on average, of so many."""
    parts = counts.astype(float)
    if counts.sum() > size:
        limits = np.minimum(counts, math.ceil(max_share * size - 1e-9)) if unknown else counts
        parts, fixed = limits.astype(float), np.zeros(len(counts), dtype=bool)
        while limits.sum() > size:  # in proportion, and what some classes may not take goes to the others
            rest = (size - limits[fixed].sum()) * counts / counts[~fixed].sum()
            parts = np.where(fixed, limits, rest)
            if (parts <= limits).all():
                break
            fixed |= parts > limits
    if not unknown:
        return parts
    bound = parts.max(initial=0.0)
    for _ in range(200):  # the greatest of which there are no more than their share, from above
        bound = min(bound, max_share * (np.minimum(parts, bound).sum() + unknown))
    return np.asarray(np.minimum(parts, bound))


def _linked_points(
    known: Constraints, points: Points, room: int, limit: int, generator: np.random.Generator
) -> Iterator[Points]:
    """Endlessly, those of these points that there is room for, and no more than `limit` that are known to be of one
    cluster."""
    names, places = np.unique(known.groups[points], return_inverse=True)
    counts = np.bincount(places)
    if len(points) <= room and counts.max(initial=0) <= limit:
        while True:
            yield points
    members = np.split(points[np.argsort(places, kind="stable")], np.cumsum(counts)[:-1])
    apart = known.apart[names][:, names]  # labelled points are in the batch anyway
    component = connected_components(apart, directed=False)[1]
    sizes = np.bincount(component, weights=np.minimum(counts, limit)).astype(int)
    among = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    queue: deque[int] = deque()
    while True:
        chosen, put_off, left, tried, rounds = [points[:0]], list[int](), room, 0, 0
        inside = np.zeros(len(names), dtype=bool)
        while left and tried < _PUT_OFF:
            if not queue:
                rounds += 1
                if rounds > 1:  # of which all are in the batch, or do not fit
                    break
                order = generator.permutation(len(names))
                queue.extend(order.tolist())
                visited, graph, position = np.zeros(len(names), dtype=bool), apart[order][:, order], np.argsort(order)
            start = queue.popleft()
            if visited[start]:
                continue
            party = int(component[start])
            fits = sizes[party] <= left or (sizes[party] > room and left > 1)
            if inside[start] or not fits:
                put_off.append(start)
                tried += not inside[start]
                continue
            sets = among[party]
            if sizes[party] > left:  # near the first ones, so that each has a partner before it
                sets = order[breadth_first_order(graph, position[start], directed=False, return_predecessors=False)]
            for group in sets[~inside[sets]].tolist():
                part = members[group]
                if len(part) > min(limit, left):
                    part = generator.permutation(part)[: min(limit, left)]
                chosen.append(part)
                inside[group] = visited[group] = True
                left -= len(part)
                if not left:
                    break
        queue.extendleft(reversed(put_off))
        yield np.concatenate(chosen)


class _Rounds:
    """Points in random order, repeatedly."""

    def __init__(self, points: Points, generator: np.random.Generator) -> None:
        self.points, self.generator, self.left = points, generator, points[:0]

    def take(self, count: int) -> Points:
        """The next `count` points without repetition, or all points if there are no more."""
        if count >= len(self.points):
            return self.points
        if len(self.left) < count:
            permuted = self.generator.permutation(self.points)
            late = np.isin(permuted, self.left)  # none of those left over twice in one batch
            self.left = np.concatenate([self.left, permuted[~late], permuted[late]])
        points, self.left = self.left[:count], self.left[count:]
        return points


def with_copies(rows: Tensor, count: int, seed: int, step: int) -> Tensor:
    """(n count, side^2) for each of the rows (n, side^2), square grey images, the row and its augmented copies, by
    rotation, scaling of the width, shift, and erasure of a rectangle.

    These are the changes of XSDC (Jones, Roulet and Harchaoui, Figure 8), which does not state their size. Pixels from
    outside repeat the border, and erased pixels get the smallest value of the image.

    Args:
        rows: (n, side^2).
        count: number of versions of an image, including the unmodified image, which comes first.
        seed: seed of the changes, together with the step.
        step: number of the step.
    """
    changed, side = count - 1, math.isqrt(rows[0].numel()) if len(rows) else 0
    if not changed or not len(rows):
        return rows
    drawn = stream(seed, "changed copies", step).uniform(-1, 1, size=(8, len(rows) * changed))
    angle, width, down, right, *erased = torch.from_numpy(drawn).to(rows)
    angle, width = angle * math.radians(_ANGLE), (width * math.log1p(_WIDTH)).exp()
    ones = torch.ones_like(angle)
    # Maps positions of the output, in -1..1, to those of the input: scaled first, then rotated and shifted.
    turned = [torch.stack([angle.cos(), -angle.sin()], 1), torch.stack([angle.sin(), angle.cos()], 1)]
    linear = torch.stack(turned, 1) @ torch.diag_embed(torch.stack([1 / width, ones], 1))
    maps = torch.cat([linear, torch.stack([right, down], 1)[:, :, None] * (2 * _SHIFT)], dim=2)
    images = rows.view(-1, 1, side, side).repeat_interleave(changed, dim=0)
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
    moved = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    across, middle, height, breadth = erased
    places = torch.linspace(-1, 1, side, dtype=rows.dtype, device=rows.device)
    inside_rows = (places - across[:, None]).abs() < _ERASED * height[:, None].abs()
    inside_columns = (places - middle[:, None]).abs() < _ERASED * breadth[:, None].abs()
    hidden = (inside_rows[:, :, None] & inside_columns[:, None, :])[:, None]
    copies = torch.where(hidden, images.amin((2, 3), keepdim=True), moved).view(len(rows), changed, -1)
    return torch.cat([rows[:, None], copies], dim=1).flatten(0, 1)
