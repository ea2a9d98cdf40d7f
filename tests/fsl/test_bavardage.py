"""BAVARDAGE against loops with its projection."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.strategies.bavardage import BAVARDAGE
from tests.oracles import mixture_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw, with_constants


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["UN", "L2N", "CL2N"]),
    way=st.integers(2, 4),
    shot=st.integers(1, 3),
    beta=st.sampled_from([1.0, 4.0, 10.0]),
    prior=st.sampled_from([0.1, 1.0, 10.0]),
    concentration=st.sampled_from([0.5, 2.0, 30.0]),
    rounds=st.integers(1, 4),
)
def test_it_agrees_with_loops(seed: int, transform: str, way: int, shot: int, **options: float) -> None:
    """Which project on the differences of the means: that changes no probability."""
    episodes = draw(seed, way=way, shot=shot)
    found = with_constants(BAVARDAGE, transform=transform, **options).predict(episodes)
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = oracle.bavardage(*task, way, start_beta=options["beta"], start_rounds=5, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=1e-7, rtol=0)
