"""What is known before clustering: labels of some points, coarse ones, pairs of one cluster, pairs of two."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from clustering.foundation.errors import InputError


class Known(NamedTuple):
    """What is known of all pairs of n points.

    Attributes:
        mask: (n, n) bool, symmetric, the diagonal included.
        values: (n, n) float64, 1 for pairs of one cluster; 0 for pairs of two, and where nothing is known.
    """

    mask: Tensor
    values: Tensor


@dataclass(frozen=True)
class Constraints:
    """Labels and links of N points, with all that follows from them: what is linked with a linked point is linked.

    Coarse labels say of all points at once which pairs are of two clusters, and take N numbers.

    Attributes:
        groups: (N,) int64; points of one group are known to be of one cluster.
        apart: (G, G) sparse bool, symmetric: groups that are known to be of two clusters.
        labels: (N,) int64 labels 0..K-1, those that follow from links included, -1 where unknown.
        coarse: (G,) int64; groups of different coarse labels are of two clusters, -1 where unknown.
    """

    groups: NDArray[np.int64]
    apart: csr_array
    labels: NDArray[np.int64]
    coarse: NDArray[np.int64]

    @property
    def constrained(self) -> NDArray[np.bool_]:
        """(N,) points of known label, or linked with others; coarse labels say something in any batch, so that points
        need not be drawn together for them."""
        linked = np.bincount(self.groups)[self.groups] > 1
        parted = np.diff(self.apart.indptr)[self.groups] > 0
        return np.asarray((self.labels >= 0) | linked | parted)

    def among(self, points: NDArray[np.int64], device: torch.device | str = "cpu") -> Known:
        """What is known of pairs of these points (n,)."""
        groups = self.groups[points]
        names, places = np.unique(groups, return_inverse=True)
        apart = self.apart[names][:, names].toarray()[places[:, None], places]
        coarse = self.coarse[groups]
        told = coarse >= 0
        if told.any():
            apart |= told[:, None] & told & (coarse[:, None] != coarse)
        same = groups[:, None] == groups
        return Known(torch.from_numpy(same | apart).to(device), torch.from_numpy(same.astype(np.float64)).to(device))

    def only(self, points: NDArray[np.int64]) -> "Constraints":
        """What is known of these points (n,) alone; one that is there twice is in one group with itself."""
        names, places = np.unique(self.groups[points], return_inverse=True)
        return Constraints(places, self.apart[names][:, names], self.labels[points], self.coarse[names])

    def barred(self, clusters: int) -> NDArray[np.bool_]:
        """(G, K) clusters that a group cannot be, as their labelled points have another coarse label."""
        owner = np.full(clusters, -1, dtype=np.int64)
        told = np.flatnonzero(self.labels >= 0)
        owner[self.labels[told]] = self.coarse[self.groups[told]]
        return np.asarray((self.coarse[:, None] >= 0) & (owner >= 0) & (self.coarse[:, None] != owner))


def constraints(
    points: int,
    *,
    labels: NDArray[np.int64] | None = None,
    must_link: ArrayLike | None = None,
    cannot_link: ArrayLike | None = None,
    coarse_labels: ArrayLike | None = None,
) -> Constraints:
    """Bring together what is known of N points.

    Args:
        points: N.
        labels: (N,) 0..K-1, -1 where unknown.
        must_link: (p, 2) pairs of points of one cluster.
        cannot_link: (q, 2) pairs of points of two clusters.
        coarse_labels: (N,) integers, -1 where unknown; points of different ones are of two clusters.

    Raises:
        InputError: pairs that are none, or that contradict each other or the labels, with the points.
    """
    labels = np.full(points, -1, dtype=np.int64) if labels is None else labels
    joined, parted = pairs("must_link", must_link, points), pairs("cannot_link", cannot_link, points)
    linked = _components(points, joined)
    known = np.flatnonzero(labels >= 0)
    first = np.full(int(linked.max(initial=-1)) + 1, -1, dtype=np.int64)  # a labelled point of each linked set
    first[linked[known][::-1]] = known[::-1]
    clash = known[labels[known] != labels[first[linked[known]]]]
    if len(clash):
        point, other = int(clash[0]), int(first[linked[clash[0]]])
        raise InputError(
            f"must_link joins points {other} and {point}, directly or through others, but their labels are "
            f"{labels[other]} and {labels[point]}: take a pair or a label out"
        )
    labels = np.where(first[linked] >= 0, labels[first[linked]], -1)
    classes, members = np.unique(labels[known], return_index=True)
    representatives = known[members]  # a point of each class
    edges = np.stack([representatives[np.searchsorted(classes, labels[known])], known], axis=1)
    groups = _components(points, np.concatenate([joined, edges]))
    within = groups[parted[:, 0]] == groups[parted[:, 1]]
    if within.any():
        one, other = parted[within][0].tolist()
        why = (
            f"both have label {labels[one]}" if labels[one] >= 0 else "must_link joins them, directly or through others"
        )
        raise InputError(f"cannot_link has points {one} and {other}, but {why}: take a pair or a label out")
    between = groups[representatives]
    every = np.stack(np.meshgrid(between, between), axis=-1).reshape(-1, 2)
    sides = np.concatenate([every[every[:, 0] != every[:, 1]], groups[parted], groups[parted][:, ::-1]])
    count = int(groups.max(initial=-1)) + 1
    coarse = _of_groups(_coarse(coarse_labels, points), groups, count, labels)
    apart = coo_array((np.ones(len(sides), dtype=bool), (sides[:, 0], sides[:, 1])), shape=(count, count))
    return Constraints(groups, csr_array(apart), labels, coarse)


def check_room(known: Constraints, clusters: int) -> None:
    """That every point has a cluster left that it is not known to be apart from. Whether all have one together, which
    is to colour a graph, is not looked at.

    Raises:
        InputError: one has none, with points of each cluster that it is apart from.
    """
    labels = np.full(known.apart.shape[0], -1, dtype=np.int64)
    labels[known.groups] = known.labels
    one, other = known.apart.nonzero()
    kept = (labels[one] < 0) & (labels[other] >= 0)
    taken = csr_array((np.ones(int(kept.sum())), (one[kept], labels[other][kept])), shape=(len(labels), clusters))
    full = np.flatnonzero(np.diff(taken.indptr) == clusters)
    if len(full):
        group = int(full[0])
        point = int(np.flatnonzero(known.groups == group)[0])
        others = known.apart.indices[known.apart.indptr[group] : known.apart.indptr[group + 1]]
        near = np.isin(known.groups, others)
        examples = ", ".join(str(np.flatnonzero(near & (known.labels == k))[0]) for k in range(clusters))
        raise InputError(
            f"cannot_link keeps point {point} apart from all {clusters} clusters, by points {examples} or points "
            f"linked with them, whose labels are 0..{clusters - 1}: take a pair or a label out"
        )


def broken_links(known: Constraints, labels: NDArray[np.int64]) -> int:
    """How many groups that are known to be apart have the same label, (N,) labels: pairs of groups."""
    of_group = np.full(known.apart.shape[0], -1, dtype=np.int64)
    of_group[known.groups] = labels
    one, other = known.apart.nonzero()
    return int((of_group[one] == of_group[other]).sum()) // 2


def pairs(name: str, given: ArrayLike | None, points: int) -> NDArray[np.int64]:
    """(p, 2) pairs of points 0..N-1, as `name` was given; none where None.

    Raises:
        InputError: no integers, points that there are not, or a point with itself.
    """
    if given is None:
        return np.empty((0, 2), dtype=np.int64)
    found = np.asarray(given)
    if found.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or not np.issubdtype(found.dtype, np.integer):
        raise InputError(f"{name} must be pairs of row numbers (p, 2), not {found.dtype} {found.shape}")
    wrong = (found < 0) | (found >= points)
    if wrong.any():
        row = int(wrong.any(axis=1).argmax())
        raise InputError(f"{name} pair {row} is {found[row].tolist()}, but the {points} points are 0..{points - 1}")
    itself = found[:, 0] == found[:, 1]
    if itself.any():
        row = int(itself.argmax())
        raise InputError(f"{name} pair {row} is point {found[row, 0]} with itself; leave it out")
    return found.astype(np.int64)


def _coarse(given: ArrayLike | None, points: int) -> NDArray[np.int64]:
    """(N,) coarse labels as they were given, -1 where unknown.

    Raises:
        InputError: no integers, below -1, or not one for each point.
    """
    if given is None:
        return np.full(points, -1, dtype=np.int64)
    found = np.asarray(given)
    if found.shape != (points,) or not np.issubdtype(found.dtype, np.integer) or found.min(initial=0) < -1:
        raise InputError(f"coarse_labels must be {points} integers from 0 on, -1 where unknown")
    return found.astype(np.int64)


def _of_groups(
    coarse: NDArray[np.int64], groups: NDArray[np.int64], count: int, labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(G,) the coarse label of each group's points (N,).

    Raises:
        InputError: points of one group have two.
    """
    found = np.full(count, -1, dtype=np.int64)
    told = np.flatnonzero(coarse >= 0)
    found[groups[told]] = coarse[told]
    clash = told[coarse[told] != found[groups[told]]]
    if len(clash):
        one = int(clash[0])
        other = int(told[(groups[told] == groups[one]) & (coarse[told] != coarse[one])][0])
        why = (
            f"both have label {labels[one]}" if labels[one] >= 0 else "must_link joins them, directly or through others"
        )
        raise InputError(
            f"coarse_labels has {coarse[one]} for point {one} and {coarse[other]} for point {other}, but {why}: "
            "take one out"
        )
    return found


def _components(points: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) numbers of the connected components."""
    graph = coo_array((np.ones(len(edges), dtype=bool), (edges[:, 0], edges[:, 1])), shape=(points, points))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
