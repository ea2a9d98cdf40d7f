"""Merging two clusters and splitting another one as long as that is better (split and merge, Ueda et al. 2000).

Prototypes move in small steps, so none leaves a class with two prototypes for one with none. The best starts of a race
are therefore modified in this way. The effect on E and on the sizes is known for every choice without running it, and
the most promising choices are run.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.streams import stream
from clustering.graphs.sparse_graph import SparseGraph
from clustering.metrics import nmi
from clustering.optimiser.prototypes import Rule
from clustering.optimiser.rows import Rows
from clustering.slk.fit import Ends
from clustering.starts import Select, indicators

_LEADERS, _ALIKE = 4, 0.97
"""Number of starts to modify, and the largest NMI between the labels of any two of them."""

_MOST_CLUSTERS = 32
"""Maximum number of clusters for these changes. With more, a single change matters little and costs as much as a start:
with 200 clusters of 1,797 points, changes took twenty times as long as everything else."""

_TRIED, _ROUNDS = 6, 8
"""Number of changes of a start that are run, of which the best is taken, and maximum number of rounds."""

_PAIRS = 2
"""Number of pairs of clusters considered for merging, times K: those with the strongest arcs for their sizes."""

_UPDATES = 10
"""Maximum number of updates of the halves of a cluster, by their means and by their neighbours each."""

_TOGETHER = 1 << 22
"""Number of distances between points and prototypes computed at a time."""


def split_and_merged(
    rule: Rule, graph: SparseGraph, ends: Ends, weight: float, select: Select, run: Callable[[Tensor], Ends]
) -> Ends:
    """The best of the results and of modifications of the first few of them, each modified as long as that is better.

    With more than 32 clusters, nothing is modified.

    Args:
        rule: rule of the prototypes.
        graph: W of the rows.
        ends: results, best first.
        weight: lambda of E.
        select: selection criterion.
        run: computes results from prototypes (t, K, D).
    """
    dtype, clusters = ends.prototypes.dtype, ends.prototypes.shape[1]
    if 2 < clusters <= _MOST_CLUSTERS:
        for leader in _leaders(ends.labels):
            for turn in range(_ROUNDS):
                ranking, generator = ends.ranking, stream(0, "split and merge", turn)
                same_clusters = ranking.sound & (ranking.clusters == ranking.clusters[leader])
                lowest = ranking.energies[same_clusters].min() if same_clusters.any() else ranking.energies[leader]
                allowed = float(lowest + 2 * ranking.allowances[leader] - ranking.energies[leader])
                changed = changes(rule, graph, ends, leader, weight, select, allowed, generator)
                if not len(changed):
                    break
                known = len(ends.labels)
                ends = Ends.joined(ends, run(changed))
                order = ends.ranking.order(dtype).tolist()
                best = min(range(known, len(ends.labels)), key=order.index)
                if order.index(best) > order.index(leader):
                    break
                leader = best
    return ends.at(ends.ranking.order(dtype)[:1])


def _leaders(labels: Tensor) -> list[int]:
    """Indices of the first few labels (T, N) of which no two are nearly equal."""
    leaders: list[int] = []
    for i, candidate in enumerate(labels.cpu().numpy()):
        if len(leaders) < _LEADERS and all(nmi(labels[j].cpu().numpy(), candidate) <= _ALIKE for j in leaders):
            leaders.append(i)
    return leaders


def changes(
    rule: Rule,
    graph: SparseGraph,
    ends: Ends,
    index: int,
    weight: float,
    select: Select,
    allowed: float,
    generator: np.random.Generator,
) -> Tensor:
    """(t, K, D), t <= 6, prototypes of one result with two clusters merged and another one split.

    These are the changes by which the criterion of the labels falls most while E rises by at most `allowed`. For labels
    the criterion is E - 2 N H, or E; merging and splitting change it additively.
    """
    labels, K = ends.labels[index], ends.prototypes.shape[1]
    half = 2 * labels + _halves(rule.rows, graph, labels, K, generator)
    sizes = torch.bincount(half, minlength=2 * K).double()
    links = _links(graph, half, 2 * K)
    cluster_sizes, between = sizes.view(K, 2).sum(dim=1), links.view(K, 2, K, 2).sum(dim=(1, 3))
    pairs = _pairs(between, cluster_sizes)
    parts = (sizes.view(K, 2) > 0).all(dim=1).nonzero()[:, 0]
    if not len(pairs) or not len(parts):
        return ends.prototypes[:0]
    sets = [labels == k for k in range(K)] + [half == h for h in range(2 * K)]
    sets += [(labels == a) | (labels == b) for a, b in pairs.tolist()]
    current = ends.prototypes[index]
    near = torch.cat([current, current.repeat_interleave(2, dim=0), current[pairs[:, 0]]])
    prototypes, paid = _sub_prototypes(rule, sets, near)
    single, halves, joined = paid[:K], paid[K : 3 * K], paid[3 * K :]
    a, b = pairs.unbind(dim=1)
    join = joined - single[a] - single[b] - weight * (between[a, b] + between[b, a])
    inside = links.view(K, 2, K, 2)[parts, 0, parts, 1] + links.view(K, 2, K, 2)[parts, 1, parts, 0]
    part = halves.view(K, 2).sum(dim=1)[parts] - single[parts] + weight * inside
    energy = join[:, None] + part
    fall = energy.clone()
    if select == "information":  # N H is N log N minus the sum of n log n
        spread = torch.special.xlogy(sizes, sizes).view(K, 2).sum(dim=1) - torch.special.xlogy(
            cluster_sizes, cluster_sizes
        )
        pooled = torch.special.xlogy(cluster_sizes[a] + cluster_sizes[b], cluster_sizes[a] + cluster_sizes[b])
        pooled -= torch.special.xlogy(cluster_sizes[a], cluster_sizes[a]) + torch.special.xlogy(
            cluster_sizes[b], cluster_sizes[b]
        )
        fall += 2 * (pooled[:, None] + spread[parts])
    disjoint = (a[:, None] != parts) & (b[:, None] != parts)
    fall = torch.where(disjoint & (energy <= allowed), fall, torch.inf)
    best = fall.flatten().topk(min(_TRIED, fall.numel()), largest=False)
    proposals = []
    for value, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if value == float("inf"):
            break
        pair, c = place // len(parts), int(parts[place % len(parts)])
        new = current.clone()
        new[a[pair]] = prototypes[3 * K + pair]
        new[b[pair]], new[c] = prototypes[K + 2 * c], prototypes[K + 2 * c + 1]
        proposals.append(new)
    return torch.stack(proposals) if proposals else ends.prototypes[:0]


def _pairs(links: Tensor, sizes: Tensor) -> Tensor:
    """(p, 2) pairs a < b of non-empty clusters, by descending strength of the arcs between them (K, K)."""
    full = sizes > 0
    strength = (links / (sizes[:, None] * sizes).clamp_min(1)).triu(1)
    possible = (full[:, None] & full).triu(1)
    count = min(_PAIRS * len(sizes), int(possible.sum()))
    best = torch.where(possible, strength, -1.0).flatten().topk(count).indices
    return torch.stack([best // len(sizes), best % len(sizes)], dim=1)


def _links(graph: SparseGraph, labels: Tensor, clusters: int) -> Tensor:
    """(K, K) float64 sums of the weights of arcs between the clusters of labels (N,)."""
    source_labels = torch.repeat_interleave(labels, graph.pointers.diff())
    places = source_labels * clusters + labels[graph.columns]
    links = graph.weights.new_zeros(clusters * clusters, dtype=torch.float64)
    return links.index_add_(0, places, graph.weights.double()).view(clusters, clusters)


def _sub_prototypes(rule: Rule, sets: list[Tensor], near: Tensor) -> tuple[Tensor, Tensor]:
    """(M, D) prototypes of sets of points, each bool (N,), and (M,) the costs of their points.

    An empty set takes the prototype from `near` (M, D).
    """
    prototypes, paid = [], []
    together = max(1, _TOGETHER // len(sets[0]))
    for first in range(0, len(sets), together):
        members = torch.stack(sets[first : first + together])[None]
        weights = torch.where(members.any(dim=2, keepdim=True), members, True).to(near.dtype)
        centres = rule.update(rule.rows.means(weights), weights, None)[0]
        centres = torch.where(members.any(dim=2)[0][:, None], centres, near[first : first + together])
        prototypes.append(centres)
        paid.append((rule.cost(centres[None])[0] * members[0]).sum(dim=1, dtype=torch.float64))
    return torch.cat(prototypes), torch.cat(paid)


def _halves(rows: Rows, graph: SparseGraph, labels: Tensor, clusters: int, generator: np.random.Generator) -> Tensor:
    """(N,) 0 or 1: every cluster split in two, by 2-means from k-means++ seeds and then by the majority of
    neighbours."""
    points = torch.arange(len(labels), device=labels.device)
    first = _drawn(labels, torch.ones_like(labels, dtype=torch.float64), clusters, generator)
    squared_distances = rows.squared_distances(rows.at(first)[None])[0][labels, points]
    second = _drawn(labels, squared_distances.double(), clusters, generator)
    seeds = rows.at(torch.stack([first, second], dim=1).flatten())
    halves = torch.zeros_like(labels)
    for _ in range(_UPDATES):
        distances = rows.squared_distances(seeds[None])[0]
        new = (distances[2 * labels + 1, points] < distances[2 * labels, points]).long()
        if torch.equal(new, halves):
            break
        halves = new
        weights = indicators((2 * labels + halves)[None], 2 * clusters, seeds.dtype)
        full = weights.amax(dim=2)[0] > 0
        means = rows.means(torch.where(full[:, None], weights[0], 1.0)[None])[0]
        seeds = torch.where(full[:, None], means, seeds)
    inside = torch.repeat_interleave(labels, graph.pointers.diff()) == labels[graph.columns]
    within = replace(graph, weights=graph.weights * inside)
    for _ in range(_UPDATES):
        votes = (within @ torch.nn.functional.one_hot(halves, 2).to(graph.weights.dtype)[None])[0]
        new = torch.where(votes[:, 0] == votes[:, 1], halves, (votes[:, 1] > votes[:, 0]).long())
        if torch.equal(new, halves):
            break
        halves = new
    return halves


def _drawn(labels: Tensor, weights: Tensor, clusters: int, generator: np.random.Generator) -> Tensor:
    """(K,) a point of each cluster, drawn with probability proportional to its weight; any point for an empty
    cluster."""
    # The largest log(u) / w is such a draw (Efraimidis and Spirakis 2006).
    uniform = torch.from_numpy(generator.random(len(labels))).to(labels.device)
    keys = torch.where(weights > 0, uniform.log() / weights, -torch.inf)
    points = torch.zeros(clusters, dtype=torch.int64, device=labels.device)
    for k in range(clusters):
        members = (labels == k).nonzero()[:, 0]
        if len(members):
            points[k] = members[keys[members].argmax()]
    return points
