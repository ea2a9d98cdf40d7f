"""Constraints on the clusters: known labels, coarse labels, must-links, cannot-links, and bounds on their sizes."""

import warnings
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
    """Known relations of all pairs of n points.

    Attributes:
        mask: (n, n) bool, symmetric, including the diagonal.
        values: (n, n) float64, 1 for pairs in the same cluster; 0 for pairs in different clusters and unknown pairs.
    """

    mask: Tensor
    values: Tensor


@dataclass(frozen=True)
class Constraints:
    """Labels and links of N points, closed under their implications: links are transitive.

    Coarse labels state for all points together which pairs are in different clusters, with N numbers.

    Attributes:
        groups: (N,) int64; points of the same group are in the same cluster.
        apart: (G, G) sparse bool, symmetric: pairs of groups in different clusters.
        labels: (N,) int64, labels 0..K-1, including those implied by links, -1 where unknown.
        coarse: (G,) int64; groups with different coarse labels are in different clusters, -1 where unknown.
    """

    groups: NDArray[np.int64]
    apart: csr_array
    labels: NDArray[np.int64]
    coarse: NDArray[np.int64]

    @property
    def constrained(self) -> NDArray[np.bool_]:
        """(N,) mask of points that have a label or a link.

        Coarse labels do not count: they apply in any batch, so such points need not be drawn together.
        """
        linked = np.bincount(self.groups)[self.groups] > 1
        separated = np.diff(self.apart.indptr)[self.groups] > 0
        return np.asarray((self.labels >= 0) | linked | separated)

    def among(self, points: NDArray[np.int64], device: torch.device | str = "cpu") -> Known:
        """Known relations of pairs of these points (n,)."""
        groups = self.groups[points]
        names, places = np.unique(groups, return_inverse=True)
        apart = self.apart[names][:, names].toarray()[places[:, None], places]
        coarse = self.coarse[groups]
        labelled = coarse >= 0
        if labelled.any():
            apart |= labelled[:, None] & labelled & (coarse[:, None] != coarse)
        together = groups[:, None] == groups
        return Known(
            torch.from_numpy(together | apart).to(device), torch.from_numpy(together.astype(np.float64)).to(device)
        )

    def only(self, points: NDArray[np.int64]) -> "Constraints":
        """Constraints on these points (n,) only; repeated points share a group."""
        names, places = np.unique(self.groups[points], return_inverse=True)
        return Constraints(places, self.apart[names][:, names], self.labels[points], self.coarse[names])

    def excluded_clusters(self, clusters: int) -> NDArray[np.bool_]:
        """(G, K) clusters that are excluded for a group, because their labelled points have another coarse label."""
        owner = np.full(clusters, -1, dtype=np.int64)
        labelled = np.flatnonzero(self.labels >= 0)
        owner[self.labels[labelled]] = self.coarse[self.groups[labelled]]
        return np.asarray((self.coarse[:, None] >= 0) & (owner >= 0) & (self.coarse[:, None] != owner))


def constraints(
    points: int,
    *,
    labels: NDArray[np.int64] | None = None,
    must_link: ArrayLike | None = None,
    cannot_link: ArrayLike | None = None,
    coarse_labels: ArrayLike | None = None,
) -> Constraints:
    """Combine labels and links of N points.

    Args:
        points: N.
        labels: (N,) 0..K-1, -1 where unknown.
        must_link: (p, 2) pairs of points in the same cluster.
        cannot_link: (q, 2) pairs of points in different clusters.
        coarse_labels: (N,) integers, -1 where unknown; points with different coarse labels are in different clusters.

    Raises:
        InputError: pairs are invalid, or contradict each other or the labels; the message names the points.
    """
    labels = np.full(points, -1, dtype=np.int64) if labels is None else labels
    joined, separated = pairs("must_link", must_link, points), pairs("cannot_link", cannot_link, points)
    linked = _components(points, joined)
    known = np.flatnonzero(labels >= 0)
    first = np.full(int(linked.max(initial=-1)) + 1, -1, dtype=np.int64)  # a labelled point of each linked set
    first[linked[known][::-1]] = known[::-1]
    clash = known[labels[known] != labels[first[linked[known]]]]
    if len(clash):
        point, right = int(clash[0]), int(first[linked[clash[0]]])
        raise InputError(
            f"must_link joins points {right} and {point}, directly or through others, but their labels are "
            f"{labels[right]} and {labels[point]}: remove a pair or a label"
        )
    labels = np.where(first[linked] >= 0, labels[first[linked]], -1)
    classes, members = np.unique(labels[known], return_index=True)
    representatives = known[members]  # a point of each class
    edges = np.stack([representatives[np.searchsorted(classes, labels[known])], known], axis=1)
    groups = _components(points, np.concatenate([joined, edges]))
    within = groups[separated[:, 0]] == groups[separated[:, 1]]
    if within.any():
        left, right = separated[within][0].tolist()
        reason = (
            f"both have label {labels[left]}"
            if labels[left] >= 0
            else "must_link joins them, directly or through others"
        )
        raise InputError(f"cannot_link has points {left} and {right}, but {reason}: remove a pair or a label")
    between = groups[representatives]
    class_pairs = np.stack(np.meshgrid(between, between), axis=-1).reshape(-1, 2)
    sides = np.concatenate(
        [class_pairs[class_pairs[:, 0] != class_pairs[:, 1]], groups[separated], groups[separated][:, ::-1]]
    )
    count = int(groups.max(initial=-1)) + 1
    coarse = _of_groups(_coarse(coarse_labels, points), groups, count, labels)
    apart = coo_array((np.ones(len(sides), dtype=bool), (sides[:, 0], sides[:, 1])), shape=(count, count))
    return Constraints(groups, csr_array(apart), labels, coarse)


def check_room(known: Constraints, clusters: int) -> None:
    """Check that every point has at least one allowed cluster.

    Whether all points can be assigned together, a graph colouring problem, is not checked.

    Raises:
        InputError: a point has no allowed cluster; the message names points of the clusters from which it must be
            apart.
    """
    labels = np.full(known.apart.shape[0], -1, dtype=np.int64)
    labels[known.groups] = known.labels
    first, second = known.apart.nonzero()
    kept = (labels[first] < 0) & (labels[second] >= 0)
    neighbours = csr_array(
        (np.ones(int(kept.sum())), (first[kept], labels[second][kept])), shape=(len(labels), clusters)
    )
    full = np.flatnonzero(np.diff(neighbours.indptr) == clusters)
    if len(full):
        group = int(full[0])
        point = int(np.flatnonzero(known.groups == group)[0])
        others = known.apart.indices[known.apart.indptr[group] : known.apart.indptr[group + 1]]
        near = np.isin(known.groups, others)
        examples = ", ".join(str(np.flatnonzero(near & (known.labels == k))[0]) for k in range(clusters))
        raise InputError(
            f"cannot_link keeps point {point} apart from all {clusters} clusters, by points {examples} or points "
            f"linked with them, whose labels are 0..{clusters - 1}: remove a pair or a label"
        )


def broken_links(known: Constraints, labels: NDArray[np.int64]) -> int:
    """Number of pairs of groups that must be apart but share a label, from labels (N,)."""
    of_group = np.full(known.apart.shape[0], -1, dtype=np.int64)
    of_group[known.groups] = labels
    first, second = known.apart.nonzero()
    return int((of_group[first] == of_group[second]).sum()) // 2


def pairs(name: str, links: ArrayLike | None, points: int) -> NDArray[np.int64]:
    """Validated (p, 2) pairs of points 0..N-1 of the argument `name`; empty for None.

    Raises:
        InputError: the pairs are not integers, refer to missing points, or pair a point with itself.
    """
    if links is None:
        return np.empty((0, 2), dtype=np.int64)
    indices = np.asarray(links)
    if indices.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if indices.ndim != 2 or indices.shape[1] != 2 or not np.issubdtype(indices.dtype, np.integer):
        raise InputError(f"{name} must be pairs of row numbers (p, 2), not {indices.dtype} {indices.shape}")
    wrong = (indices < 0) | (indices >= points)
    if wrong.any():
        row = int(wrong.any(axis=1).argmax())
        raise InputError(f"{name} pair {row} is {indices[row].tolist()}, but the {points} points are 0..{points - 1}")
    itself = indices[:, 0] == indices[:, 1]
    if itself.any():
        row = int(itself.argmax())
        raise InputError(f"{name} pair {row} is point {indices[row, 0]} with itself; remove it")
    return indices.astype(np.int64)


def _coarse(coarse_labels: ArrayLike | None, points: int) -> NDArray[np.int64]:
    """Validated (N,) coarse labels, -1 where unknown.

    Raises:
        InputError: the labels are not integers from -1 on, one for each point.
    """
    if coarse_labels is None:
        return np.full(points, -1, dtype=np.int64)
    values = np.asarray(coarse_labels)
    if values.shape != (points,) or not np.issubdtype(values.dtype, np.integer) or values.min(initial=0) < -1:
        raise InputError(f"coarse_labels must be {points} integers >= 0, or -1 where unknown")
    return values.astype(np.int64)


def _of_groups(
    coarse: NDArray[np.int64], groups: NDArray[np.int64], count: int, labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(G,) coarse labels of the groups, from those of the points (N,).

    Raises:
        InputError: points of one group have different coarse labels.
    """
    of_group = np.full(count, -1, dtype=np.int64)
    labelled = np.flatnonzero(coarse >= 0)
    of_group[groups[labelled]] = coarse[labelled]
    clash = labelled[coarse[labelled] != of_group[groups[labelled]]]
    if len(clash):
        first = int(clash[0])
        other = int(labelled[(groups[labelled] == groups[first]) & (coarse[labelled] != coarse[first])][0])
        reason = (
            f"both have label {labels[first]}"
            if labels[first] >= 0
            else "must_link joins them, directly or through others"
        )
        raise InputError(
            f"coarse_labels has {coarse[first]} for point {first} and {coarse[other]} for point {other}, but {reason}: "
            "remove one of them"
        )
    return of_group


def _components(points: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) index of the connected component of each point."""
    graph = coo_array((np.ones(len(edges), dtype=bool), (edges[:, 0], edges[:, 1])), shape=(points, points))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def size_bounds(
    known: Constraints, clusters: int, min_share: float | None = None, max_share: float | None = None
) -> tuple[float, float]:
    """Minimum and maximum size of a cluster, as shares of the N points.

    None stands for the mean share, 1 / K. If neither is given and a larger share of points is known to be in one
    cluster, the bounds are the smallest and the largest share of a cluster among the labels, if every cluster has
    labels; otherwise they are widened as little as possible.

    Args:
        known: labels and links.
        clusters: K.
        min_share: minimum share of a cluster, in 0..1 / K.
        max_share: maximum share of a cluster, in 1 / K..1.

    Raises:
        InputError: the mean share is not between the bounds, or the bounds contradict labels or links.

    Warns:
        UserWarning: no bounds are given, and equal sizes contradict labels or links, or only some clusters have labels.
    """
    equal, points = 1 / clusters, len(known.groups)
    low, high = (equal if share is None else share for share in (min_share, max_share))
    if low > high or low > equal + 1e-9 or high < equal - 1e-9:
        raise InputError(
            f"min_share={low:g} and max_share={high:g} must enclose the mean share, 1 / {clusters} = {equal:g}"
        )
    unknown = int((known.labels < 0).sum())
    if not unknown:
        return low, high
    together = np.bincount(known.groups)
    largest, labelled = int(together.max()), np.bincount(known.labels[known.labels >= 0], minlength=clusters)
    too_many = largest > (high + 1e-9) * points
    if too_many and min_share is None and max_share is None:
        if labelled.all():
            shares = labelled / labelled.sum()
            low, high = float(shares.min()), max(float(shares.max()), largest / points)
        else:
            high = largest / points
            low = min((1 - high) / (clusters - 1), (int(labelled.min()) + unknown) / points)
        warnings.warn(
            f"{largest} of {points} points are known to be in one cluster, which is more than 1 / {clusters} of them: "
            f"the assumed cluster shares are {low:.3g} to {high:.3g}; set min_share and max_share",
            stacklevel=3,
        )
        return low, high
    if too_many:
        point = int((known.groups == together.argmax()).argmax())
        raise InputError(
            f"{largest} of {points} points are known to be in one cluster (that of point {point}), but a cluster has "
            f"at most {high * points:g}: raise max_share"
        )
    if min_share is None and max_share is None and labelled.any() and not labelled.all():
        warnings.warn(
            f"only some of the {clusters} clusters have labels, so equal cluster sizes are assumed; give "
            "labels of every cluster, or min_share and max_share",
            stacklevel=3,
        )
    least = int(labelled.argmin())
    if labelled[least] + unknown < (low - 1e-9) * points:
        raise InputError(
            f"cluster {least} has labels for {labelled[least]} of {points} points, and {unknown} points have no label, "
            f"but a cluster needs at least {low * points:g}: lower min_share"
        )
    return low, high
