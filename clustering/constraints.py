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
    joined, separated = _pairs("must_link", must_link, points), _pairs("cannot_link", cannot_link, points)
    linked = _components(points, joined)
    labels = _of_groups("label", labels, linked)[linked]
    classes, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    groups = _components(
        points, np.concatenate([joined, np.stack([first[numbers], np.arange(points)], 1)[labels >= 0]])
    )
    within = groups[separated[:, 0]] == groups[separated[:, 1]]
    if within.any():
        left, right = separated[within][0].tolist()
        raise InputError(
            f"cannot_link has points {left} and {right}, but must_link or their label puts them in one cluster: remove "
            "a pair or a label"
        )
    if coarse_labels is None:
        coarse = np.full(points, -1, dtype=np.int64)
    else:
        coarse = np.asarray(coarse_labels)
        if coarse.shape != (points,) or not np.issubdtype(coarse.dtype, np.integer) or coarse.min(initial=0) < -1:
            raise InputError(f"coarse_labels must be {points} integers >= 0, or -1 where unknown")
    of_class = groups[first[classes >= 0]]
    class_pairs = np.stack(np.meshgrid(of_class, of_class), axis=-1).reshape(-1, 2)
    sides = [class_pairs[class_pairs[:, 0] != class_pairs[:, 1]], groups[separated], groups[separated][:, ::-1]]
    rows, columns = np.concatenate(sides).T
    count = int(groups.max(initial=-1)) + 1
    apart = coo_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(count, count))
    return Constraints(groups, csr_array(apart), labels, _of_groups("coarse label", coarse.astype(np.int64), groups))


def check_room(known: Constraints, clusters: int) -> None:
    """Check that every point has at least one allowed cluster.

    Whether all points can be assigned together, a graph colouring problem, is not checked.

    Raises:
        InputError: a point has no allowed cluster.
    """
    labels = np.full(known.apart.shape[0], -1, dtype=np.int64)
    labels[known.groups] = known.labels
    first, second = known.apart.nonzero()
    kept = (labels[first] < 0) & (labels[second] >= 0)
    taken = np.unique(np.stack([first[kept], labels[second[kept]]], axis=1), axis=0)[:, 0]
    full = np.flatnonzero(np.bincount(taken, minlength=1) == clusters)
    if len(full):
        raise InputError(
            f"cannot_link keeps point {int((known.groups == full[0]).argmax())} apart from labelled points of all "
            f"{clusters} clusters: remove a pair or a label"
        )


def broken_links(known: Constraints, labels: NDArray[np.int64]) -> int:
    """Number of pairs of groups that must be apart but share a label, from labels (N,)."""
    of_group = np.full(known.apart.shape[0], -1, dtype=np.int64)
    of_group[known.groups] = labels
    first, second = known.apart.nonzero()
    return int((of_group[first] == of_group[second]).sum()) // 2


def _pairs(name: str, links: ArrayLike | None, points: int) -> NDArray[np.int64]:
    """Validated (p, 2) pairs of points 0..N-1 of the argument `name`; empty for None.

    Raises:
        InputError: the pairs are not integers, refer to missing points, or pair a point with itself.
    """
    indices = np.empty((0, 2), dtype=np.int64) if links is None else np.asarray(links)
    if indices.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if indices.ndim != 2 or indices.shape[1] != 2 or not np.issubdtype(indices.dtype, np.integer):
        raise InputError(f"{name} must be pairs of row numbers (p, 2), not {indices.dtype} {indices.shape}")
    wrong = ((indices < 0) | (indices >= points)).any(axis=1) | (indices[:, 0] == indices[:, 1])
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{name} pair {row} is {indices[row].tolist()}, but it must be of two of the points 0..{points - 1}"
        )
    return indices.astype(np.int64)


def _of_groups(name: str, values: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """(G,) the known value of each group, -1 for none, from those of the points (N,), -1 where unknown.

    Raises:
        InputError: points of one group have different values.
    """
    of_group = np.full(int(groups.max(initial=-1)) + 1, -1, dtype=np.int64)
    known = np.flatnonzero(values >= 0)
    of_group[groups[known[::-1]]] = values[known[::-1]]  # of the first point
    clash = known[values[known] != of_group[groups[known]]]
    if len(clash):
        point = int(clash[0])
        other = int(known[groups[known] == groups[point]][0])
        raise InputError(
            f"points {other} and {point} have {name} {values[other]} and {values[point]}, but must_link or their label "
            "puts them in one cluster: remove a pair or a label"
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
    if min_share is None and max_share is None:
        if too_many and labelled.all():
            shares = labelled / labelled.sum()
            low, high = float(shares.min()), max(float(shares.max()), largest / points)
        elif too_many:
            high = largest / points
            low = min((1 - high) / (clusters - 1), (int(labelled.min()) + unknown) / points)
        if too_many or (labelled.any() and not labelled.all()):
            reason = (
                f"{largest} of {points} points are known to be in one cluster"
                if too_many
                else f"only some of the {clusters} clusters have labels"
            )
            warnings.warn(
                f"{reason}: the assumed cluster shares are {low:.3g} to {high:.3g}; give labels of every cluster, or "
                "min_share and max_share",
                stacklevel=3,
            )
        if too_many:
            return low, high
    elif too_many:
        raise InputError(
            f"{largest} of {points} points are known to be in one cluster, but a cluster has at most "
            f"{high * points:g}: raise max_share"
        )
    least = int(labelled.argmin())
    if labelled[least] + unknown < (low - 1e-9) * points:
        raise InputError(
            f"cluster {least} has labels for {labelled[least]} of {points} points, and {unknown} points have no label, "
            f"but a cluster needs at least {low * points:g}: lower min_share"
        )
    return low, high
