"""What every few-shot strategy does with tasks that are small, flat or lopsided, and with features it cannot take."""

import dataclasses

import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes, Strategy
from tests.fsl.every_strategy import draw, every_strategy


@every_strategy
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_points_equal(strategy: Strategy, value: float) -> None:
    """Nothing tells the classes apart: finite, and the tie goes to class 0 or stays a tie."""
    episodes = draw(7)
    flat = dataclasses.replace(
        episodes, support=torch.full_like(episodes.support, value), query=torch.full_like(episodes.query, value)
    )
    found = strategy.predict(flat)
    assert bool(found.probabilities.isfinite().all())
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(6, 11))


@every_strategy
def test_a_class_that_attracts_no_point(strategy: Strategy) -> None:
    """Its two examples lie with the other classes, as do the queries: none is nearest to its mean, in between."""
    support = torch.tensor([[[1.0, 0.1], [1.0, -0.1], [1.0, 0.02], [0.02, 1.0], [0.1, 1.0], [-0.1, 1.0]]])
    query = torch.tensor([[[1.0, 0.0], [0.05, 1.0], [1.0, 0.05]]])
    points, means = torch.cat([support, query], dim=1), support.unflatten(1, (3, 2)).mean(2)
    assert 1 not in torch.cdist(points, means).argmin(2)
    assert 1 not in (points @ means.mT / means.norm(dim=2)[:, None]).argmax(2)
    labels = torch.arange(3).repeat_interleave(2)[None]
    found = strategy.predict(Episodes(support, labels, query, 3, transform=strategy.transform))
    assert bool(found.probabilities.isfinite().all())
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(1, 3))


@every_strategy
def test_shots_that_differ_by_class(strategy: Strategy) -> None:
    """One, two, five and eight; the padding holds other points of the task."""
    shots = torch.tensor([1, 2, 5, 8])
    episodes = draw(6, shot=8, queries=11, spread=2.0)
    mask = (torch.arange(8) < shots[:, None]).flatten().expand(6, -1)
    filled = torch.where(mask[..., None], episodes.support, episodes.query[:, :8].repeat(1, 4, 1))
    found = strategy.predict(dataclasses.replace(episodes, support=filled, support_mask=mask)).probabilities
    keep = mask[0]
    without = dataclasses.replace(
        episodes, support=episodes.support[:, keep], support_labels=episodes.support_labels[:, keep]
    )
    torch.testing.assert_close(found, strategy.predict(without).probabilities, atol=2e-3, rtol=0)


@every_strategy
def test_negative_features_are_refused_where_they_cannot_be_taken(strategy: Strategy) -> None:
    episodes = draw(4)
    negative = dataclasses.replace(episodes, support=episodes.support - 0.5, query=episodes.query - 0.5)
    if "non-negative" in getattr(strategy, "needs", ""):
        with pytest.raises(InputError, match=r"non-negative.*transform="):
            strategy.predict(negative)
    else:
        assert bool(strategy.predict(negative).probabilities.isfinite().all())


@every_strategy
def test_a_missing_base_mean_is_named_where_it_is_needed(strategy: Strategy) -> None:
    without = dataclasses.replace(draw(4), base_mean=None)
    if strategy.transform == "CL2N":
        with pytest.raises(InputError, match=r"base_mean.*L2N"):
            strategy.predict(without)
    else:
        strategy.predict(without)
