"""Soft SLK against loops, its descent, and what its proportions do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.episodes import Episodes
from fsl.extra.soft_slk import SoftSLK, shrunk_proportions
from fsl.strategies.paddle import SoftKMeans
from tests.oracles.small_tasks import as_arrays, draw
from tests.oracles.soft_slk_loops import soft_slk
from tests.oracles.sweeps import largest_rise


@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["L2N", "CL2N"]),
    way=st.integers(2, 4),
    shot=st.integers(1, 3),
    beta=st.sampled_from([1.0, 4.0]),
    support_weight=st.sampled_from([1.0, 3.0]),
    weight=st.sampled_from([0.0, 0.2]),
    neighbours=st.integers(1, 3),
    shrinkage=st.sampled_from([0.0, 0.5, 3.0]),
    rounds=st.integers(0, 3),
)
def test_it_agrees_with_loops(seed: int, transform: str, way: int, shot: int, **options: float) -> None:
    episodes = draw(seed, way=way, shot=shot)
    strategy = SoftSLK(transform=transform, max_iterations=400, tolerance=1e-14, **options)  # type: ignore[arg-type]
    found = strategy.predict(episodes)
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = soft_slk(*task, way, steps=60, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=2e-3, rtol=0)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 100_000),
    beta=st.sampled_from([1.0, 65.0]),
    weight=st.sampled_from([0.0, 1.0, 5.0]),
    support_weight=st.sampled_from([0.3, 3.0]),
)
def test_the_objective_never_rises(seed: int, **options: float) -> None:
    episodes = draw(seed, batch=4, way=5, queries=25)
    found = SoftSLK(**options).predict(episodes)  # type: ignore[arg-type]
    assert found.trace is not None
    assert largest_rise(found.trace) <= 1e-12


def test_without_graph_and_proportions_it_is_soft_kmeans() -> None:
    episodes = draw(3, queries=20)
    found = SoftSLK(beta=8.0, support_weight=1.0, weight=0.0, shrinkage=0.0, tolerance=1e-12).predict(episodes)
    other = SoftKMeans(beta=8.0 * float(episodes.shots[0, 0, 0]) ** 0.5, tolerance=1e-12).predict(episodes)
    torch.testing.assert_close(found.probabilities, other.probabilities, atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 100_000), way=st.integers(2, 30), queries=st.integers(1, 40), shrinkage=st.floats(0, 1e6))
def test_proportions_lie_between_those_found_and_equal_ones(
    seed: int, way: int, queries: int, shrinkage: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.softmax(4 * torch.randn(3, queries, way, generator=generator, dtype=torch.float64), 2)
    found = rows.mean(1)
    shrunk = shrunk_proportions(rows, rows, torch.ones(3, queries, dtype=torch.float64), shrinkage)
    torch.testing.assert_close(shrunk.sum(1), torch.ones(3, dtype=torch.float64))
    away = (found - 1 / way).abs()
    assert bool(((shrunk - 1 / way).abs() <= away + 1e-12).all())
    assert bool(((shrunk - found).abs() <= away + 1e-12).all())


def test_proportions_of_few_queries_are_hardly_shrunk() -> None:
    """One query of five classes cannot be a fifth of each."""
    one = torch.tensor([[[0.6, 0.1, 0.1, 0.1, 0.1]]])
    shrunk = shrunk_proportions(one, one, torch.ones(1, 1), 1.0)
    torch.testing.assert_close(shrunk, one[:, 0], atol=0.05, rtol=0)


@pytest.mark.parametrize("counts", [(15, 15, 15), (37, 5, 3)])
def test_balanced_queries_are_held_balanced_and_others_left_alone(counts: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(5)
    centres = torch.eye(3, 8, dtype=torch.float64)
    noise = lambda n: 0.33 * torch.randn(1, n, 8, generator=generator, dtype=torch.float64)  # noqa: E731
    classes = torch.arange(3).repeat_interleave(torch.tensor(counts))
    episodes = Episodes(
        centres.repeat_interleave(5, 0)[None] + noise(15),
        torch.arange(3).repeat_interleave(5)[None],
        centres[classes][None] + noise(len(classes)),
        3,
    )
    strategy = SoftSLK(transform="L2N", beta=10.0)
    found = strategy.predict(episodes).probabilities.mean((0, 1))
    free = SoftSLK(transform="L2N", beta=10.0, shrinkage=0.0).predict(episodes).probabilities.mean((0, 1))
    truth = torch.tensor(counts, dtype=torch.float64) / sum(counts)
    moved, nearer = (found - free).abs().max(), (found - truth).norm() <= (free - truth).norm() + 0.02
    assert nearer
    assert moved > 1e-3 if len(set(counts)) == 1 else moved < 0.05
