"""Changed copies of pictures: what they keep, and that a batch knows which are of one."""

from typing import Any

import numpy as np
import pytest
import torch

from clustering.constraints import constraints
from clustering.deep import XSDC
from clustering.deep.xsdc.copies import Copies
from clustering.deep.xsdc.networks import Perceptron
from clustering.deep.xsdc.training import Reversal
from clustering.foundation.errors import InputError
from tests.clustering.deep.test_xsdc import partly, pictures


def fitted(**kwargs: Any) -> XSDC:
    X, classes = pictures(0)
    settings = {"n_features": 6, "supervised_steps": 3, "steps": 12, "batch_size": 30, "copies": 3, "random_state": 0}
    fit = {name: kwargs.pop(name) for name in ("folder", "advance") if name in kwargs}
    return XSDC(3, **settings | kwargs).fit(X, partial_labels=partly(classes, 5), **fit)


def test_values_stay_in_their_range_and_a_plain_picture_is_plain() -> None:
    rows = torch.from_numpy(pictures(0, 6)[0])
    found = Copies(8, 12, 0).of(rows, 1).view(6, 8, 144)
    assert (found.amin(2) >= rows.amin(1)[:, None] - 1e-6).all()
    assert (found.amax(2) <= rows.amax(1)[:, None] + 1e-6).all()
    plain = torch.full((2, 144), 0.3)
    torch.testing.assert_close(Copies(8, 12, 0).of(plain, 1), plain[:1].expand(16, 144))
    assert Copies(3, 12, 0).of(rows.double(), 1).dtype == torch.float64


def test_copies_of_a_point_are_a_block_of_ones() -> None:
    X, classes = pictures(0)
    network = Perceptron(144, (8,), 4)
    network.begin(torch.from_numpy(X), np.random.default_rng(0))
    known = constraints(60, labels=partly(classes, 4))
    training = Reversal(network, torch.from_numpy(X), known, 3, 1 / 3, 1 / 3, copies=Copies(3, 12, 0))
    steps = training.assigned(0.01, network.optimizer(1e-3), 30, np.random.default_rng(0))
    step = next(steps)
    assert len(step.points) == 12 + 30
    others = step.points[12:].reshape(10, 3)
    assert (others == others[:, :1]).all()
    assert len(set(others[:, 0].tolist())) == 10
    assert step.equivalence is not None
    for place in range(12, 42, 3):
        assert (step.equivalence[place : place + 3, place : place + 3] == 1).all()
    assert not torch.equal(step.features[12], step.features[13])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"copies": 31}, r"copies=31 .*batch_size=30"),
        ({"copies": 0}, "copies"),
        (
            {"copies": 16, "batch_size": 16, "assignment": "balancing"},
            r"10\.3333 .*batch of 31, .*16",
        ),
    ],
)
def test_what_cannot_be_is_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        fitted(**settings)
