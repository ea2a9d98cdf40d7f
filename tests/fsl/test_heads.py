"""Nearest neighbour, MatchingNet and ProtoNet against loops, and the identities between them."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.strategies import nearest
from fsl.strategies.nearest import MatchingNet, Nearest
from fsl.strategies.simpleshot import ProtoNet
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw

transforms = st.sampled_from(["UN", "L2N", "CL2N"])
seeds = st.integers(0, 100_000)


@settings(deadline=None, max_examples=15)
@given(seed=seeds, transform=transforms, metric=st.sampled_from(["euclidean", "cosine"]))
def test_nearest_agrees_with_loops(seed: int, transform: str, metric: str) -> None:
    episodes = draw(seed)
    found = Nearest(transform=transform, metric=metric).predict(episodes)  # type: ignore[arg-type]
    for labels, task in zip(found.labels, as_arrays(episodes, transform), strict=True):
        assert labels.tolist() == oracle.nearest(*task, metric)
    assert set(found.probabilities.unique().tolist()) == {0.0, 1.0}


@settings(deadline=None, max_examples=15)
@given(seed=seeds, transform=transforms, temperature=st.floats(0.1, 20))
def test_matchingnet_agrees_with_loops(seed: int, transform: str, temperature: float) -> None:
    episodes = draw(seed)
    found = MatchingNet(transform=transform, temperature=temperature).predict(episodes)  # type: ignore[arg-type]
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = oracle.matchingnet(*task, 3, temperature)
        torch.testing.assert_close(rows, torch.from_numpy(expected))


@settings(deadline=None, max_examples=15)
@given(seed=seeds, transform=transforms, temperature=st.floats(0.1, 20))
def test_protonet_agrees_with_loops(seed: int, transform: str, temperature: float) -> None:
    episodes = draw(seed)
    found = ProtoNet(transform=transform, temperature=temperature).predict(episodes)  # type: ignore[arg-type]
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        torch.testing.assert_close(rows, torch.from_numpy(oracle.protonet(*task, 3, temperature)))


def test_many_points_are_compared_a_few_queries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = draw(1, queries=40)
    strategies = (Nearest(), Nearest(metric="cosine"), MatchingNet(transform="UN"))
    expected = [strategy.predict(episodes).probabilities for strategy in strategies]
    monkeypatch.setattr(nearest, "_AT_ONCE", 200)
    for strategy, before in zip(strategies, expected, strict=True):
        fresh = dataclasses.replace(episodes)
        torch.testing.assert_close(strategy.predict(fresh).probabilities, before)
        assert "points" not in vars(fresh.transformed(strategy.transform))
