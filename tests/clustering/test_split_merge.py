"""Clusters joined and parted: what is tried first is the best by a slow comparison, and the result is never worse."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from clustering import SLK
from clustering.graphs.sparse_graph import SparseGraph
from clustering.metrics import accuracy
from clustering.optimiser.alternation import Sweeps
from clustering.optimiser.prototypes import Means, Modes
from clustering.optimiser.rows import Rows
from clustering.seeding import prototypes_of
from clustering.slk.fit import Ends, Problem
from clustering.slk.split_merge import changes, split_and_merged

WEIGHT = 0.3
K = 5


def problem(seed: int = 0, points: int = 100) -> tuple[Rows, SparseGraph, np.ndarray]:
    """Points in five groups, their graph and the groups."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(points) % K
    x = torch.randn(points, 3, generator=generator, dtype=torch.float64) + 6 * torch.eye(K, 3)[y]
    x[y == 4] -= 5
    rows = Rows.of(x)
    near = rows.squared_distances(rows.at(torch.arange(points))[None])[0].fill_diagonal_(torch.inf)
    near = near.topk(4, largest=False).indices
    return rows, SparseGraph.of_arcs(near[None], torch.ones(1, points, 4, dtype=torch.float64)), y.numpy()


def ends_at(rule: Any, graph: SparseGraph, labels: np.ndarray, select: Any) -> Ends:
    """Labels as they are, about their prototypes."""
    found = torch.from_numpy(labels)[None]
    about = prototypes_of(found, rule, rule.rows.at(torch.arange(K))[None])
    return run(rule, graph, select, about, sweeps=1)._replace(labels=found)


def run(rule: Any, graph: SparseGraph, select: Any, start: torch.Tensor, sweeps: int = 100) -> Ends:
    problem = Problem(SLK(K, weight=WEIGHT, select=select), rule.rows, graph, 1.0)
    return problem.ranked(rule, problem.run(rule, start, Sweeps(), updates=sweeps))


@pytest.mark.parametrize("select", ["energy", "information"])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_change_is_the_best_of_all(select: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, graph, _ = problem(seed)
    rule, labels = Means(rows), np.random.default_rng(seed).integers(0, K, 100)
    half = torch.from_numpy(np.random.default_rng(seed + 9).integers(0, 2, 100))
    monkeypatch.setattr("clustering.slk.split_merge._halves", lambda *_: half)
    ends = ends_at(rule, graph, labels, select)
    new = changes(rule, graph, ends, 0, WEIGHT, select, np.inf, np.random.default_rng(0))
    assert len(new) == 6
    x = rows.at(torch.arange(100)).numpy()
    W = sparse.csr_array((graph.weights.numpy(), graph.columns.numpy(), graph.pointers.numpy())).toarray()

    def criterion(labels: np.ndarray) -> float:
        cost = sum(((x[labels == k] - x[labels == k].mean(axis=0)) ** 2).sum() for k in range(K))
        shares = np.bincount(labels, minlength=K) / 100
        E = cost + WEIGHT * W[labels[:, None] != labels].sum()
        return float(E + (200 * (shares * np.log(shares)).sum() if select == "information" else 0))

    every = {}
    for a, b in combinations(range(K), 2):
        for c in {*range(K)} - {a, b}:
            moved = np.where(labels == b, a, labels)
            every[a, b, c] = np.where((labels == c) & (half.numpy() == 0), b, moved)
    order = sorted(every, key=lambda choice: criterion(every[choice]))
    for prototypes, choice in zip(new.numpy(), order, strict=False):
        for k in {*choice}:
            np.testing.assert_allclose(prototypes[k], x[every[choice] == k].mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("select", ["energy", "information"])
@pytest.mark.parametrize("modes", [False, True])
def test_two_groups_in_one_cluster_and_one_in_two_are_mended(select: Any, modes: bool) -> None:
    rows, graph, y = problem()
    rule = Modes(rows, 4.0, steps=1) if modes else Means(rows)
    wrong = np.where(y == 1, 0, y)
    wrong[(y == 2) & (rows.values[:, 0].numpy() > 0)] = 1
    ends = run(rule, graph, select, ends_at(rule, graph, wrong, select).prototypes)
    assert accuracy(y, ends.labels[0].numpy()) < 0.9
    found = split_and_merged(rule, graph, ends, WEIGHT, select, lambda start: run(rule, graph, select, start))
    assert accuracy(y, found.labels[0].numpy()) > 0.95
