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


def test_the_first_is_the_picture_and_no_other_is() -> None:
    rows = torch.from_numpy(pictures(0, 6)[0])
    found = Copies(4, 12, 0).of(rows, 1).view(6, 4, 144)
    assert torch.equal(found[:, 0], rows)
    for copy in range(1, 4):
        assert (found[:, copy] != rows).any(dim=1).all()
    # Of few changes each: a copy is nearer to its own picture than the pictures are to each other.
    own = (found[:, 1:] - rows[:, None]).norm(dim=2).mean()
    assert own < torch.cdist(rows, rows)[~torch.eye(6, dtype=torch.bool)].mean()


def test_they_depend_on_seed_and_step_alone() -> None:
    rows = torch.from_numpy(pictures(0, 6)[0])
    once = Copies(3, 12, 0).of(rows, 5)
    assert torch.equal(once, Copies(3, 12, 0).of(rows, 5))
    assert not torch.equal(once, Copies(3, 12, 0).of(rows, 6))
    assert not torch.equal(once, Copies(3, 12, 1).of(rows, 5))
    assert Copies(1, 12, 0).of(rows, 5) is rows


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


def fitted(**kwargs: Any) -> XSDC:
    X, classes = pictures(0)
    settings = {"n_features": 6, "supervised_steps": 3, "steps": 12, "batch_size": 30, "copies": 3, "random_state": 0}
    fit = {name: kwargs.pop(name) for name in ("folder", "advance") if name in kwargs}
    return XSDC(3, **settings | kwargs).fit(X, partial_labels=partly(classes, 5), **fit)


def test_a_fit_with_copies_goes_on_where_it_was_interrupted(tmp_path: Any) -> None:
    counts: list[int] = []

    def stop(n: int = 1, **numbers: float) -> None:
        counts.append(n)
        if sum(counts) == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(folder=tmp_path, advance=stop)
    again, whole = fitted(folder=tmp_path), fitted()
    assert np.array_equal(again.trace_, whole.trace_)
    assert not np.array_equal(whole.trace_, fitted(copies=1).trace_)
    assert whole.transform(pictures(1)[0]).shape == (60, 6)


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


def test_rows_that_are_no_pictures() -> None:
    with pytest.raises(InputError, match=r"copies=2 .*5 columns"):
        XSDC(2, copies=2).fit(np.random.default_rng(0).normal(size=(30, 5)))
