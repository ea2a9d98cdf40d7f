"""BAVARDAGE against loops with its projection, descent, and the methods that it is a case of."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.strategies.bavardage import BAVARDAGE
from fsl.strategies.paddle import SoftKMeans
from tests.oracles import mixture_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw
from tests.oracles.sweeps import largest_rise


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
    start_beta=st.sampled_from([0.5, 3.0]),
    start_rounds=st.integers(1, 4),
)
def test_it_agrees_with_loops(seed: int, transform: str, way: int, shot: int, **options: float) -> None:
    """Which project on the differences of the means: that changes no probability."""
    episodes = draw(seed, way=way, shot=shot)
    found = BAVARDAGE(transform=transform, **options).predict(episodes)  # type: ignore[arg-type]
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = oracle.bavardage(*task, way, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=1e-7, rtol=0)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 100_000),
    beta=st.sampled_from([1.0, 50.0]),
    prior=st.sampled_from([0.1, 10.0]),
    concentration=st.sampled_from([0.1, 2.0]),
    single=st.booleans(),
)
def test_the_objective_never_rises(seed: int, single: bool, **options: float) -> None:
    episodes = draw(seed, batch=4, way=5, queries=25)
    if single:
        support, query, mean = episodes.support.float(), episodes.query.float(), torch.full((6,), 0.1)
        episodes = Episodes(support, episodes.support_labels, query, 5, base_mean=mean)
    found = BAVARDAGE(rounds=30, **options).predict(episodes)
    assert found.trace is not None
    assert largest_rise(found.trace) <= (1e-5 if single else 1e-12)


def test_without_priors_it_is_soft_kmeans() -> None:
    episodes = draw(3, queries=20)
    found = BAVARDAGE(beta=8.0, prior=1e-9, concentration=1e9, rounds=7, start_beta=8.0, start_rounds=1)
    expected = SoftKMeans(transform="CL2N", scaling=None, beta=8.0, rounds=8, tolerance=0).predict(episodes)
    # But for what is left of the variance of a mean.
    torch.testing.assert_close(found.predict(episodes).probabilities, expected.probabilities, atol=0.05, rtol=0)


def test_it_learns_that_classes_are_of_different_sizes() -> None:
    """Two clusters that overlap, one with nine tenths of the queries: more of them are right than with equal sizes."""
    generator = torch.Generator().manual_seed(0)
    hidden = (torch.rand(200, 60, generator=generator) > 0.9).long()
    centres = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    query = centres[hidden] + 0.9 * torch.randn(200, 60, 2, generator=generator)
    support = centres.expand(200, -1, -1).repeat_interleave(3, dim=1)
    episodes = Episodes(support, torch.arange(2).repeat_interleave(3).expand(200, -1), query, 2)
    learned = BAVARDAGE(transform="UN", beta=1.2, prior=0.1, start_beta=1.2, rounds=20)
    right = [
        float((strategy.predict(episodes).labels == hidden).double().mean())
        for strategy in (learned, dataclasses.replace(learned, concentration=1e6))
    ]
    assert right[0] > right[1] + 0.01


@pytest.mark.parametrize(
    ("field", "value"), [("beta", 0.0), ("prior", -1.0), ("concentration", 0), ("rounds", 0), ("start_rounds", 1.5)]
)
def test_wrong_values_name_the_field(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        BAVARDAGE(**{field: value})  # type: ignore[arg-type]
