"""Sweeps over the points: the same on any number of cores, and only numbers that a processor is quick with."""

import pytest
import torch

from fairness.optimiser.points import Points
from fairness.optimiser.prototypes import Distances, Pulls


@pytest.fixture
def blocks_of_a_few(monkeypatch):
    monkeypatch.setattr("fairness.optimiser.points._BLOCK", 40)


@pytest.fixture
def threads_as_they_were():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def drawn(N=200, K=3, D=2, C=3):
    random = torch.Generator().manual_seed(0)
    rows, cells = torch.randn(N, D, generator=random), torch.randint(C, (N,), generator=random)
    labels, prototypes = torch.randint(K, (N,), generator=random), torch.randn(K, D, generator=random).double()
    return Points(rows, cells, C, K), labels, prototypes


def test_cores_change_nothing(blocks_of_a_few, threads_as_they_were):
    found = []
    for cores in (1, 3):
        torch.set_num_threads(cores)
        points, labels, prototypes = drawn()
        assert len(points.blocks) > 12
        logs, cost, scale = points.begin(labels, 0.1), Distances(prototypes), torch.tensor([1.0, 2.0, 3.0]).double()
        shift = torch.arange(9).view(3, 3).double()
        totals = points.sweep(logs, cost, scale, shift, shift)
        pulled = points.sums(logs, Pulls(prototypes, 1e-6))
        logs, moments = points.take(logs, cost, scale, shift)
        own, others = points.assign(cost, shift)
        far = points.farthest(cost, 4)
        found.append([*totals, *pulled, *moments, torch.cat(logs, dim=1), own, *others, far, points.labels(logs)])
        assert torch.get_num_threads() == cores
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
