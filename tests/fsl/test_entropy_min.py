"""Entropy minimisation of the head against autograd, and its limits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.strategies.tim_gd import EntropyMin
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["UN", "L2N", "CL2N"]),
    temperature=st.floats(1, 20),
    weight=st.just(0.0) | st.floats(1e-9, 3),
    learning_rate=st.floats(1e-5, 0.05),
)
def test_it_agrees_with_autograd(
    seed: int, transform: str, temperature: float, weight: float, learning_rate: float
) -> None:
    episodes = draw(seed)
    options = {"temperature": temperature, "weight": weight, "learning_rate": learning_rate, "iterations": 12}
    found = EntropyMin(transform=transform, **options).predict(episodes)  # type: ignore[arg-type]
    assert found.trace is not None
    for i, task in enumerate(as_arrays(episodes, transform)):
        expected, losses = oracle.entropy_min(*task, 3, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(found.probabilities[i], torch.from_numpy(expected), atol=1e-4, rtol=1e-4)
        assert found.trace[: len(losses), i].tolist() == pytest.approx(losses, abs=1e-4, rel=1e-4)
