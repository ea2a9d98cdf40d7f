"""Tasks of many points, which are handled by their features and a sparse graph: the same predictions as by the matrix
of inner products, and no matrix of all pairs."""

import dataclasses

import pytest
import torch

from clustering.optimiser.points import Features, Gram
from fsl import episodes
from fsl.episodes import Episodes, Strategy
from fsl.features.gathering import gathered
from fsl.samplers.drawn import Balanced
from fsl.strategies import STRATEGIES
from fsl.transforms import transform_features
from tests.fsl.test_strategies import assert_same_predictions, draw, every_strategy


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 25 points on a task is a large one."""
    monkeypatch.setattr(episodes, "LARGEST_GRAM", 24)


def without_limit(strategy: Strategy, tasks: Episodes) -> torch.Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "LARGEST_GRAM", 1024)
        tasks = dataclasses.replace(tasks)
        assert isinstance(tasks.points, Gram)
        return strategy.predict(tasks).probabilities


def shortened(strategy: Strategy) -> Strategy:
    """With few steps of those that have a thousand, each of which is the same."""
    changes = {name: 20 for name in ("max_iter", "epochs") if vars(strategy).get(name, 0) > 20}
    return dataclasses.replace(strategy, **changes)  # type: ignore[type-var]


@every_strategy
def test_large_tasks_are_predicted_as_small_ones(strategy: Strategy) -> None:
    strategy = shortened(strategy)
    tasks = draw(1, batch=2, queries=40)
    assert isinstance(tasks.points, Features)
    assert_same_predictions(strategy.predict(tasks).probabilities, without_limit(strategy, tasks))


@pytest.mark.parametrize("name", ["simpleshot", "laplacianshot", "slk_ms", "tim_gd"])
def test_large_tasks_gathered_from_a_bank(name: str) -> None:
    bank = torch.rand(200, 12, generator=torch.Generator().manual_seed(8))
    tasks = Balanced(way=3, shot=2, query=9).tasks(torch.arange(10).repeat_interleave(20)).block(0)[:2]
    strategy = shortened(STRATEGIES.load(name)(transform="L2N"))
    drawn = gathered(transform_features(bank, "L2N", None), tasks, "L2N")
    assert isinstance(drawn.points, Features)
    given_features = Episodes(bank[tasks.support], tasks.support_labels, bank[tasks.query], 3)
    torch.testing.assert_close(
        strategy.predict(drawn).probabilities, strategy.predict(given_features).probabilities, atol=1e-4, rtol=0
    )
    assert drawn.query.untyped_storage().data_ptr() == drawn.features.untyped_storage().data_ptr()
