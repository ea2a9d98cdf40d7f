"""Pseudo-labels of entropy clustering: agreement with loops and a generic solver, optimality, known labels, batches."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clustering.deep.fair_pseudo_labels import em_pseudo_labels, exact_pseudo_labels, fair_objective

TIGHT = 1e-20


def draw(
    seed: int, batch: int = 2, points: int = 9, classes: int = 3, scale: float = 2.0, even: bool = False
) -> tuple[Tensor, Tensor]:
    """(B, N, K) log-probabilities, some classes likelier than others, and (B, K) a prior."""
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    scores += 0.5 * scale * torch.randn(batch, 1, classes, generator=generator, dtype=torch.float64)
    prior = torch.ones(batch, classes, dtype=torch.float64)
    if not even:
        prior += torch.rand(prior.shape, generator=generator, dtype=torch.float64)
    return torch.log_softmax(scores, dim=-1), prior / prior.sum(-1, keepdim=True)


def some_known(points: int, batch: int = 2) -> tuple[Tensor, Tensor]:
    mask = (torch.arange(points) % 4 == 1).expand(batch, -1)
    return mask, (torch.arange(points) % 3).expand(batch, -1)


problems = {"seed": st.integers(0, 100_000), "fairness": st.sampled_from([0.1, 1.0, 7.5, 100.0])}


@settings(deadline=None, max_examples=15)
@given(with_known=st.booleans(), **problems)
def test_em_never_raises_the_objective_and_ends_above_the_exact_minimum(
    seed: int, fairness: float, with_known: bool
) -> None:
    log_p, prior = draw(seed)
    known = some_known(9) if with_known else None
    values = [
        fair_objective(
            em_pseudo_labels(log_p, fairness, prior, known=known, tolerance=0, max_iterations=steps).labels,
            log_p,
            fairness,
            prior,
            known,
        )
        for steps in (0, 1, 2, 5, 20, 100)
    ]
    for before, after in pairwise(values):
        assert bool((after <= before + 1e-12).all())
    best = exact_pseudo_labels(log_p, fairness, prior, known=known, tolerance=TIGHT)
    assert bool(best.converged.all())
    assert bool((fair_objective(best.labels, log_p, fairness, prior, known) <= values[-1] + 1e-12).all())


@settings(deadline=None, max_examples=20)
@given(with_known=st.booleans(), scale=st.sampled_from([0.0, 0.1, 2.0, 5.0]), **problems)
def test_the_exact_labels_satisfy_the_conditions_of_the_minimum(
    seed: int, fairness: float, scale: float, with_known: bool
) -> None:
    """p / y + N_u / N lambda u / ybar is the same for all classes of an unknown row."""
    log_p, prior = draw(seed, scale=scale)
    known = some_known(9) if with_known else None
    found = exact_pseudo_labels(log_p, fairness, prior, known=known, tolerance=TIGHT)
    y = found.labels
    unknown = torch.ones(2, 9, dtype=torch.bool) if known is None else ~known[0]
    torch.testing.assert_close(y.sum(-1), torch.ones(2, 9, dtype=torch.float64))
    w = unknown.double().mean() * fairness * prior / y.mean(1)
    p = log_p.exp().clamp_min(1e-8)
    c = (p / p.sum(-1, keepdim=True) / y + w[:, None])[unknown]
    assert float(((c.amax(-1) - c.amin(-1)) / c.amax(-1)).max()) < 1e-6
    if known is None:
        mean_c = (1 + (w[:, None] * y).sum(-1)).mean(-1)
        torch.testing.assert_close(mean_c, torch.full_like(mean_c, 1 + fairness), rtol=1e-7, atol=0)


@pytest.mark.parametrize("solve", [em_pseudo_labels, exact_pseudo_labels])
def test_a_problem_alone_is_the_problem_in_a_batch(solve: object) -> None:
    """Three problems that need unequally many steps, one with known rows only, under several leading dimensions."""
    easy, prior = draw(1, batch=1, scale=0.1)
    hard, _ = draw(2, batch=1, scale=8.0)
    log_p = torch.stack([easy, hard, hard])
    mask = torch.zeros(3, 1, 9, dtype=torch.bool)
    mask[2] = True
    labels = (torch.arange(9) % 3).expand(3, 1, 9)
    together = solve(log_p, 20.0, prior, known=(mask, labels))  # type: ignore[operator]
    assert together.iterations.shape == (3, 1)
    assert len(set(together.iterations.flatten().tolist())) == 3 or solve is exact_pseudo_labels
    for i in range(3):
        alone = solve(log_p[i, 0], 20.0, prior[0], known=(mask[i, 0], labels[i, 0]))  # type: ignore[operator]
        torch.testing.assert_close(together.labels[i, 0], alone.labels, rtol=1e-9, atol=1e-12)
        assert int(together.iterations[i, 0]) == int(alone.iterations)
    assert torch.equal(together.labels[2, 0], torch.nn.functional.one_hot(labels[2, 0], 3).double())


@pytest.mark.parametrize("scale", [pytest.param(10.0, marks=pytest.mark.slow), 30.0])
@pytest.mark.parametrize("fairness", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_predictions(scale: float, fairness: float, dtype: torch.dtype) -> None:
    log_p, prior = draw(5, batch=2, points=250, classes=10, scale=scale, even=True)
    found = exact_pseudo_labels(log_p.to(dtype), fairness, prior.to(dtype))
    assert bool(found.converged.all())
    assert found.labels.dtype == dtype
    best = fair_objective(found.labels.double(), log_p, fairness, prior)
    near = em_pseudo_labels(log_p, fairness, prior, tolerance=1e-3, max_iterations=300)
    assert bool((best <= fair_objective(near.labels, log_p, fairness, prior) + 1e-6 * (1 + fairness)).all())
