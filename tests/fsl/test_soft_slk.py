"""Soft SLK against loops."""

from unittest import mock

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.extra import soft_slk
from fsl.extra.soft_slk import SoftSLK
from tests.oracles import soft_slk_loops as loops
from tests.oracles.small_tasks import as_arrays, draw, with_constants


@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["L2N", "CL2N"]),
    way=st.integers(2, 4),
    shot=st.integers(1, 3),
    beta=st.sampled_from([1.0, 4.0]),
    support_weight=st.sampled_from([1.0, 3.0]),
    weight=st.sampled_from([0.0, 0.2]),
    n_neighbors=st.integers(1, 3),
    shrinkage=st.sampled_from([0.5, 3.0]),
)
def test_it_agrees_with_loops(seed: int, transform: str, way: int, shot: int, **options: float) -> None:
    episodes = draw(seed, way=way, shot=shot)
    strategy = with_constants(SoftSLK, transform=transform, **options)
    with mock.patch.multiple(soft_slk, MAX_ITERATIONS=400, TOLERANCE=1e-14):
        found = strategy.predict(episodes)
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = loops.soft_slk(*task, way, steps=60, rounds=soft_slk.ROUNDS, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=2e-3, rtol=0)
