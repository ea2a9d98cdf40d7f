"""Label propagation against loops, and its limits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.strategies.label_propagation import LabelPropagation
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["UN", "L2N", "CL2N"]),
    neighbours=st.integers(1, 16),
    alpha=st.just(0.0) | st.floats(0.05, 0.99),
    width=st.floats(0.3, 2),
)
def test_it_agrees_with_loops(seed: int, transform: str, neighbours: int, alpha: float, width: float) -> None:
    episodes = draw(seed)
    strategy = LabelPropagation(transform=transform, neighbours=neighbours, alpha=alpha, width=width)  # type: ignore[arg-type]
    found = strategy.predict(episodes)
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = oracle.label_propagation(*task, 3, neighbours, alpha, width)
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=1e-6, rtol=1e-6)


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 100_000),
    neighbours=st.integers(3, 16),
    alpha=st.just(0.0) | st.floats(0.05, 0.99),
    width=st.floats(0.7, 2),
)
def test_many_points_agree_with_loops(seed: int, neighbours: int, alpha: float, width: float) -> None:
    strategy = LabelPropagation(neighbours=neighbours, alpha=alpha, width=width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fsl.episodes.LARGEST_GRAM", 0)
        found = strategy.predict(draw(seed))
    for rows, task in zip(found.probabilities, as_arrays(draw(seed), "CL2N"), strict=True):
        expected = oracle.label_propagation(*task, 3, neighbours, alpha, width)
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=1e-5, rtol=0)
