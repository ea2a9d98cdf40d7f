"""Changed copies of pictures: what they keep, and that a batch knows which are of one."""

import numpy as np
import torch

from clustering.constraints import constraints
from clustering.deep.xsdc.networks import Perceptron
from clustering.deep.xsdc.training import Reversal, Solver
from tests.clustering.deep.test_xsdc import partly, pictures


def test_copies_of_a_point_are_a_block_of_ones() -> None:
    X, classes = pictures(0)
    network = Perceptron(144, (8,), 4)
    network.begin(torch.from_numpy(X), np.random.default_rng(0))
    known = constraints(60, labels=partly(classes, 4))
    training = Reversal(network, torch.from_numpy(X), known, 3, (1 / 3, 1 / 3), solver=Solver(batch_size=30, copies=3))
    steps = training.steps("assigned", 0.01, network.optimizer(1e-3), np.random.default_rng(0))
    step = next(steps)
    assert len(step.points) == 12 + 30
    others = step.points[12:].reshape(10, 3)
    assert (others == others[:, :1]).all()
    assert len(set(others[:, 0].tolist())) == 10
    assert step.equivalence is not None
    for place in range(12, 42, 3):
        assert (step.equivalence[place : place + 3, place : place + 3] == 1).all()
    assert not torch.equal(step.features[12], step.features[13])
