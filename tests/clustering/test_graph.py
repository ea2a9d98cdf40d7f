"""kNN graphs against a loop, with ties, padding, and every symmetry."""

import typing

import torch
from hypothesis import given, settings

from clustering.graphs.dense_graph import DenseGraph, Symmetry, nearest
from clustering.optimiser.points import Features
from tests.oracles import nearest_loops as oracle

SYMMETRIES: tuple[Symmetry, ...] = typing.get_args(Symmetry)


@settings(deadline=None, max_examples=25)
@given(**oracle.CASES)
def test_nearest_agrees_with_a_loop(seed: int, points: int, k: int, integers: bool, pad: bool) -> None:
    x, valid = oracle.draw(seed, points, integers, pad)
    found = nearest(Features(x).dissimilarities(), k, valid=valid if pad else None)
    expected = torch.zeros_like(found)
    for b, problem in enumerate(oracle.nearest(x, k, valid)):
        for p, others in enumerate(problem):
            expected[b, p, [q for _, q in others]] = 1
    assert torch.equal(found, expected)


def test_symmetries() -> None:
    x = torch.randn(4, 20, 3, generator=torch.Generator().manual_seed(1))
    graphs = {symmetry: DenseGraph.of_points(Features(x), 3, symmetry) for symmetry in SYMMETRIES}
    assert {symmetry for symmetry, graph in graphs.items() if not graph.symmetric} == {"directed"}
    weights = {symmetry: graph.weights for symmetry, graph in graphs.items()}
    directed = weights["directed"]
    assert bool((directed.sum(-1) == 3).all())
    assert bool((directed.diagonal(dim1=1, dim2=2) == 0).all())
    assert torch.equal(weights["average"], (directed + directed.mT) / 2)
    assert torch.equal(weights["union"], torch.maximum(directed, directed.mT))
    assert torch.equal(weights["mutual"], directed * directed.mT)
