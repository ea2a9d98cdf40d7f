"""Losses of discriminative clustering: agreement with loops, slopes by finite differences, identities, limits."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clustering.deep import OBJECTIVES, losses
from tests.oracles import entropy_loops as oracle


def draw(seed: int, shape: tuple[int, ...] = (2, 7, 3), scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.log_softmax(scale * torch.randn(*shape, generator=generator, dtype=torch.float64), -1)


seeds = st.integers(0, 100_000)


@settings(deadline=None, max_examples=15)
@given(seed=seeds, order=st.sampled_from([0.1, 0.5, 1.0, 2.0, 5.0, math.inf]))
def test_they_are_those_of_loops(seed: int, order: float) -> None:
    log_p, log_q = draw(seed), draw(seed + 1)
    for i in range(2):
        p, q = log_p[i].exp().tolist(), log_q[i].exp().tolist()
        assert float(losses.paired_information(log_p, log_q)[i]) == pytest.approx(
            oracle.paired_information(p, q), abs=1e-12
        )
        expected = sum(oracle.renyi(row, order) for row in p) / 7
        assert float(losses.mean_entropy(log_p, order)[i]) == pytest.approx(expected, abs=1e-12)
        swapped = sum(-a * math.log(b) for x, y in zip(p, q, strict=True) for a, b in zip(x, y, strict=True)) / 7
        assert float(losses.reverse_cross_entropy(log_p, log_q.exp())[i]) == pytest.approx(swapped)
        assert float(losses.cross_entropy(log_q, log_p.exp())[i]) == pytest.approx(swapped)


EVERY = list(OBJECTIVES.table)


def of(name: str, **fields: Any) -> Any:
    return OBJECTIVES.load(name)(**fields)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("with_known", [False, True])
def test_the_slope_of_every_objective(name: str, with_known: bool) -> None:
    """By finite differences, pseudo-labels held."""
    logits = draw(9, (2, 8, 3), scale=1.0).requires_grad_()
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    known = (torch.arange(8) < 3, torch.arange(8) % 3) if with_known else None
    objective = of(name)
    targets = objective.targets(torch.log_softmax(logits[0], -1).detach(), prior, known)

    def value(x: Tensor) -> Tensor:
        found: Tensor = objective.loss(torch.log_softmax(x, -1), targets, prior, known)
        return found

    assert value(logits).shape == ()
    assert torch.autograd.gradcheck(value, (logits,), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", EVERY)
def test_targets_are_distributions_keep_what_is_known_and_do_not_see_the_batch(name: str) -> None:
    log_p = draw(12, (3, 8, 3))
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    known = ((torch.arange(8) < 3).expand(3, -1), (torch.arange(8) % 3).expand(3, -1))
    objective = of(name)
    targets = objective.targets(log_p, prior, known)
    if targets is not None:
        torch.testing.assert_close(targets.sum(-1), torch.ones(3, 8, dtype=torch.float64))
        one_hot = torch.nn.functional.one_hot(known[1], 3).double()
        assert torch.equal(targets[known[0]], one_hot[known[0]])
        for i in range(3):
            alone = objective.targets(log_p[i], prior, (known[0][i], known[1][i]))
            torch.testing.assert_close(targets[i], alone)
    views = torch.stack([log_p, draw(13, (3, 8, 3))])
    together = objective.loss(views, targets, prior, known)
    assert together.shape == (3,)
    for i in range(3):
        own = (known[0][i], known[1][i])
        alone = objective.loss(views[:, i], None if targets is None else targets[i], prior, own)
        torch.testing.assert_close(together[i], alone)


@pytest.mark.parametrize("name", EVERY)
def test_a_network_sets_the_agreement_of_every_objective_that_has_one(name: str) -> None:
    objective = of(name)
    views = torch.stack([draw(12, (8, 3)), draw(13, (8, 3))])
    prior = torch.full((3,), 1 / 3, dtype=torch.float64)
    if hasattr(objective, "agreement"):
        known = (torch.arange(8) < 3, torch.arange(8) % 3)
        targets = objective.targets(views[0], prior, known)
        one, more = (
            dataclasses.replace(objective, agreement=weight).loss(views, targets, prior, known) for weight in (1.0, 2.0)
        )
        assert float(more - one) == pytest.approx(float(losses.agreement(views[0], views[1])))
    else:
        assert name == "iic"
