"""Starts that race: the best by a slow, obvious comparison goes on, however many are worked on together."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import clustering.slk.race
from clustering import SLK
from clustering.foundation.streams import stream
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.alternation import Sweeps
from clustering.optimiser.prototypes import Means
from clustering.optimiser.rows import Rows
from clustering.seeding import plus_plus, prototypes_about
from clustering.slk.fit import Problem
from clustering.slk.race import race

WEIGHT = 0.3


def problem(starts: int = 9) -> tuple[Rows, SparseGraph, torch.Tensor]:
    """Points in five groups, and seeds of which many begin with two in one."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 3, generator=generator, dtype=torch.float64) + 6 * torch.eye(5, 3)[torch.arange(100) % 5]
    rows = Rows.of(x)
    near = rows.squared_distances(rows.at(torch.arange(100))[None])[0].fill_diagonal_(torch.inf).topk(4, largest=False)
    graph = SparseGraph.of_arcs(near.indices[None], torch.ones(1, 100, 4, dtype=torch.float64))
    return rows, graph, rows.at(plus_plus(rows, 5, [stream(3, "race", i) for i in range(starts)]))


def solved(rows: Rows, graph: SparseGraph, select: Any) -> Problem:
    return Problem(SLK(5, prototypes="mean", weight=WEIGHT, select=select), rows, graph, 0.25)


@pytest.mark.parametrize("select", ["energy", "information"])
def test_the_best_of_all_goes_on_where_none_is_left_behind(select: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering.slk.race, "_KEPT", 1.0)
    rows, graph, seeds = problem()
    whole = solved(rows, graph, select)
    prototypes, energies = race(whole, seeds)
    W = sparse.csr_array((graph.weights.numpy(), graph.columns.numpy(), graph.pointers.numpy())).toarray()
    criteria = []
    for start in seeds:
        rule = Means(rows)  # as SLK's at variance 0.25
        found = whole.run(rule, prototypes_about(start[None], rows, rule), Sweeps())
        S, labels = found.assignments[0].numpy(), found.labels[0].numpy()
        cost = ((rows.at(torch.arange(100)).numpy()[:, None] - found.coefficients[0].numpy()) ** 2).sum(axis=2)
        if select == "energy":
            cut = W[labels[:, None] != labels].sum()
            criteria.append(cost[np.arange(100), labels].sum() + WEIGHT * cut)
        else:
            shares = np.bincount(labels, minlength=5) / 100
            R = (S * cost).sum() + (S * np.log(S + 1e-300)).sum() - WEIGHT * (S * (W @ S)).sum()
            criteria.append(R + 100 * (shares * np.log(np.maximum(shares, 1e-300))).sum())
    assert len(energies) == len(seeds)
    expected = race(whole, seeds[[int(np.argmin(criteria))]])
    apart = torch.cdist(prototypes[0], expected[0][0])  # equally good starts may name their clusters otherwise
    assert float(apart.min(dim=0).values.max()) < 1e-2
    assert float(energies.std()) > 1  # or there was nothing to choose


@pytest.mark.parametrize("rule", ["mean", "mean_shift", "byproduct"])
def test_a_race_on_a_sample_finds_the_groups_of_all(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering.slk.race, "_SAMPLE", 60)
    monkeypatch.setattr(clustering.slk.race, "_MEMBERS", 1)
    raced: list[int] = []
    monkeypatch.setattr(
        "clustering.slk.estimator.race", lambda part, seeds: raced.append(len(part.rows.values)) or race(part, seeds)
    )
    y = np.arange(300) % 4
    X = np.random.default_rng(0).normal(size=(300, 4)) + 12 * np.eye(4)[y] + 50
    model = SLK(4, prototypes=rule, n_init=6, random_state=0).fit(X)
    assert len(set(zip(model.labels_, y, strict=True))) == 4
    assert len(model.start_objectives_) == 6
    again = SLK(4, prototypes=rule, n_init=6, random_state=0).fit(X, graph=model.graph_)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    parts = (model.graph_.weights.numpy(), model.graph_.columns.numpy(), model.graph_.pointers.numpy())
    SLK(4, prototypes=rule, n_init=6, random_state=0).fit(X, graph=sparse.csr_array(parts))
    SLK(4, prototypes=rule, n_init=6, random_state=0).fit(X, partial_labels=np.where(y == 0, 0, -1))
    assert raced == [60, 60, 300, 300]
