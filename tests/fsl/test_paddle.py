"""PADDLE and soft K-means: loops, descent, limits, scaling."""

import functools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.strategies.paddle import PADDLE, SoftKMeans
from tests.oracles import paddle_loops as oracle
from tests.oracles import small_tasks
from tests.oracles.small_tasks import changed, with_constants

draw = functools.partial(small_tasks.draw, batch=2, queries=7, dim=4)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 100_000),
    weight=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    rounds=st.integers(1, 9),
    scale=st.booleans(),
)
def test_it_agrees_with_loops(seed: int, weight: float, rounds: int, scale: bool) -> None:
    episodes = draw(seed)
    rounds = rounds if scale else min(rounds, 3)  # from the third on, a task may stop
    options: dict[str, Any] = {"transform": "UN", "variant": "published" if scale else "corrected", "beta": 1.0}
    many = dict.fromkeys(("corrected", "published"), rounds)
    strategy = with_constants(PADDLE, weight=weight, rounds=many, **options)
    found = strategy.predict(episodes)
    assert found.trace is not None
    for i, labels in enumerate(episodes.support_labels.tolist()):
        support, query = episodes.support[i].tolist(), episodes.query[i].tolist()
        if scale:
            support, query = oracle.min_max(support, query)
        expected, objectives = oracle.paddle(support, labels, query, 3, weight, rounds)
        torch.testing.assert_close(found.probabilities[i], torch.tensor(expected).double(), atol=1e-6, rtol=0)
        steps = found.trace[~found.trace[:, i].isnan(), i]  # may be fewer where nothing changes any more
        objective = torch.tensor(objectives, dtype=torch.float64)[: len(steps)]
        torch.testing.assert_close(steps - steps[0], objective - objective[0], atol=1e-7, rtol=0)
    if weight == 0:
        soft = with_constants(SoftKMeans, rounds=many, **options).predict(episodes)
        torch.testing.assert_close(soft.probabilities, found.probabilities)


@pytest.mark.parametrize("rate", [0.05, 0.5])
@pytest.mark.parametrize(("kind", "weight", "rounds"), [(PADDLE, 1.0, 100), (SoftKMeans, 0.0, 20)])
def test_as_published_is_the_public_code_label_by_label(kind: Any, weight: float, rounds: int, rate: float) -> None:
    """In float32 as there, of features after a ReLU with a channel that is nearly constant and one that is dead; tasks
    whose objective has long stopped to change take all rounds, too."""
    episodes = changed(draw(8, batch=4, queries=20, dim=12), lambda x: rate * x.float().relu())
    narrow = torch.tensor([1.0] * 10 + [1e-4, 0.0])
    episodes = changed(episodes, lambda x: x * narrow)
    found = kind.as_published().predict(episodes)
    assert found.iterations.tolist() == [rounds] * 4
    for i, labels in enumerate(episodes.support_labels.tolist()):
        scaled = oracle.min_max(episodes.support[i].tolist(), episodes.query[i].tolist())
        expected, _ = oracle.paddle(scaled[0], labels, scaled[1], 3, weight, rounds)
        torch.testing.assert_close(found.probabilities[i].double(), torch.tensor(expected).double(), atol=1e-4, rtol=0)
        assert found.labels[i].tolist() == [max(range(3), key=row.__getitem__) for row in expected]
