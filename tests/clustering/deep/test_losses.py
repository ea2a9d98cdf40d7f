"""Losses of discriminative clustering: agreement with loops, slopes by finite differences, identities, limits."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clustering.deep import OBJECTIVES, losses
from clustering.foundation.errors import InputError
from fsl.strategies.shared.information import InformationLoss
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
        assert float(losses.information(log_p)[i]) == pytest.approx(oracle.information(p), abs=1e-12)
        assert float(losses.paired_information(log_p, log_q)[i]) == pytest.approx(
            oracle.paired_information(p, q), abs=1e-12
        )
        expected = sum(oracle.renyi(row, order) for row in p) / 7
        assert float(losses.mean_entropy(log_p, order)[i]) == pytest.approx(expected, abs=1e-12)
        swapped = sum(-a * math.log(b) for x, y in zip(p, q, strict=True) for a, b in zip(x, y, strict=True)) / 7
        assert float(losses.reverse_cross_entropy(log_p, log_q.exp())[i]) == pytest.approx(swapped)
        assert float(losses.cross_entropy(log_q, log_p.exp())[i]) == pytest.approx(swapped)


@settings(deadline=None, max_examples=15)
@given(seed=seeds)
def test_information_is_a_mean_divergence_within_its_bounds(seed: int) -> None:
    """E1: -I = mean H(p) - H(pbar) = -mean KL(p || pbar), in -log K..0; with KL to the even prior log K more."""
    log_p = draw(seed)
    found = losses.information(log_p)
    mean = log_p.exp().mean(-2)
    divergence = (log_p.exp() * (log_p - mean.log()[:, None])).sum(-1).mean(-1)
    torch.testing.assert_close(found, -divergence, rtol=0, atol=1e-12)
    assert bool((found <= 1e-12).all())
    assert bool((found >= -math.log(3) - 1e-12).all())
    even = torch.full((3,), 1 / 3, dtype=torch.float64)
    whole = losses.mean_entropy(log_p) + losses.tolerant_fairness(mean, even)
    torch.testing.assert_close(whole, found + math.log(3), rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=10)
@given(seed=seeds, alpha=st.sampled_from([0.5, 1.0, 2.0, 5.0]))
def test_information_is_the_loss_of_few_shot_learning(seed: int, alpha: float) -> None:
    """TIM's and alpha-TIM's loss and its hand-written gradient, by autograd of the loss here."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, 3, 9, generator=generator, dtype=torch.float64, requires_grad=True)
    log_p = logits.log_softmax(dim=1)
    nothing = torch.zeros(2, 3, 0, dtype=torch.float64)
    few_shot = InformationLoss(
        nothing,
        nothing[:, :1],
        torch.full((2, 1, 9), 1 / 9, dtype=torch.float64),
        cross_entropy=0.0,
        marginal=0.7,
        conditional=0.3,
        alpha=alpha,
    )
    value, derivative = few_shot.value_and_derivative(log_p.detach())
    ours = losses.information(log_p.mT, conditional=0.3, marginal=0.7, order=alpha)
    torch.testing.assert_close(ours, value)
    torch.testing.assert_close(torch.autograd.grad(ours.sum(), logits)[0], derivative)


def test_renyi_entropies_fall_with_the_order_and_have_their_limits() -> None:
    log_p = draw(4)
    orders = [0.1, 0.5, 0.99, 1.0, 1.01, 2.0, 5.0, 50.0, math.inf]
    values = torch.stack([losses.mean_entropy(log_p, order) for order in orders])
    assert bool((values.diff(dim=0) <= 1e-12).all())
    torch.testing.assert_close(values[2], values[3], rtol=2e-2, atol=0)
    torch.testing.assert_close(values[5], -(log_p.exp().square().sum(-1).log()).mean(-1))


def test_labels_in_doubt_do_not_train_by_the_reverse_and_smooth_by_the_forward_cross_entropy() -> None:
    logits = draw(2, (7, 3)).requires_grad_()
    even = torch.full((7, 3), 1 / 3, dtype=torch.float64)
    (still,) = torch.autograd.grad(losses.reverse_cross_entropy(torch.log_softmax(logits, -1), even), logits)
    assert float(still.abs().max()) < 1e-15
    (pull,) = torch.autograd.grad(losses.cross_entropy(torch.log_softmax(logits, -1), even), logits)
    torch.testing.assert_close(pull, (torch.softmax(logits.detach(), -1) - even) / 7)


@pytest.mark.parametrize("noise", [0.2, 0.6, 0.9])
def test_reverse_cross_entropy_of_smoothed_labels_is_the_absolute_error(noise: float) -> None:
    log_p, labels = draw(6, (7, 3)), torch.arange(7) % 3
    one_hot = torch.nn.functional.one_hot(labels, 3).double()
    smoothed = noise / 3 + (1 - noise) * one_hot
    found = losses.reverse_cross_entropy(log_p, smoothed)
    least = -math.log(1 - noise + noise / 3)
    slope = math.log(1 + 3 * (1 - noise) / noise)
    torch.testing.assert_close(found, least + slope * losses.absolute_error(log_p, labels))


@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
def test_labels_alone_are_the_losses_of_the_rows_that_are_known(smoothing: float) -> None:
    views, labels = draw(7, (1, 8, 3)), torch.arange(8) % 3
    known, prior = (torch.arange(8) < 5, labels), torch.full((3,), 1 / 3, dtype=torch.float64)
    part, told = views[0, :5], torch.nn.functional.one_hot(labels[:5], 3).double()
    targets = smoothing / 3 + (1 - smoothing) * told
    floored = 0.01 / 3 + 0.99 * told if smoothing == 0 else targets
    expected = {
        "labelled": losses.cross_entropy(part, targets),
        "labelled_reverse": losses.reverse_cross_entropy(part, floored),
        "labelled_absolute": losses.absolute_error(part, labels[:5]),
    }
    for name, value in expected.items():
        fields = {} if name == "labelled_absolute" else {"smoothing": smoothing}
        torch.testing.assert_close(of(name, **fields).loss(views, None, prior, known), value)
        assert float(of(name).loss(views, None, prior)) == 0


def test_a_class_without_points_is_forbidden_or_tolerated() -> None:
    even = torch.full((3,), 1 / 3, dtype=torch.float64)
    degenerate = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    assert float(losses.fairness(degenerate, even)) == math.inf
    assert float(losses.tolerant_fairness(degenerate, even)) == pytest.approx(math.log(3 / 2))
    assert float(losses.fairness(even, even)) == pytest.approx(0)


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


@pytest.mark.parametrize("name", ["entropy", "sela", "miadm"])
def test_labels_follow_the_prior(name: str) -> None:
    """Predictions without an opinion that matters; SeLa's plan before it is rounded."""
    log_p = draw(20, (200, 3), scale=0.05)
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    fields: dict[str, Any] = {"sela": {"rounding": "soft"}, "miadm": {"marginal": 100.0, "corrections": 50}}.get(
        name, {}
    )
    found = of(name, **fields).targets(log_p, prior).mean(0)
    torch.testing.assert_close(found, prior, rtol=0, atol=0.02)


def test_iic_needs_views() -> None:
    with pytest.raises(InputError, match="views"):
        of("iic").loss(draw(1, (1, 8, 3)), None, torch.ones(3))


def test_a_field_that_cannot_be() -> None:
    with pytest.raises(InputError, match="fairness"):
        of("entropy", fairness=-1)
