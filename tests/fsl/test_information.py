"""TIM and PADDLE in all their forms: loops, gradients by finite differences, the public code, limits."""

import dataclasses
import functools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.episodes import Episodes
from fsl.strategies.paddle import PADDLE, SoftKMeans
from fsl.strategies.shared.information import InformationLoss
from fsl.strategies.tim_adm import TIMADM
from fsl.strategies.tim_gd import TIMGD, AlphaTIM
from tests.oracles import information_loops as oracle
from tests.oracles import paddle_loops, small_tasks
from tests.oracles.small_tasks import changed, with_constants

draw = functools.partial(small_tasks.draw, batch=2, queries=7, dim=4)


def tasks(episodes: Episodes) -> list[tuple[list[list[float]], list[int], list[list[float]]]]:
    parts = zip(episodes.support, episodes.support_labels, episodes.query, strict=True)
    return [(support.tolist(), labels.tolist(), query.tolist()) for support, labels, query in parts]


def loss_of(episodes: Episodes, **options: Any) -> InformationLoss:
    even = torch.ones(len(episodes.support), 1, 1, dtype=torch.float64)
    size, queries = episodes.support_size, episodes.query_size
    return InformationLoss(
        episodes.support_one_hot.mT.contiguous(),
        even.expand(-1, 1, size) / size,
        even.expand(-1, 1, queries) / queries,
        **options,
    )


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 100_000),
    alpha=st.sampled_from([0.5, 1.0, 1.001, 2.0, 5.0, 7.0]),
    weights=st.tuples(st.floats(0, 2), st.floats(0, 2), st.floats(0, 2)),
    temperature=st.sampled_from([1.0, 5.0]),
)
def test_the_loss_is_that_of_loops_and_the_gradient_its_slope(
    seed: int, alpha: float, weights: tuple[float, float, float], temperature: float
) -> None:
    episodes = draw(seed)
    names = ("cross_entropy", "marginal", "conditional")
    loss = loss_of(episodes, alpha=alpha, temperature=temperature, **dict(zip(names, weights, strict=True)))
    means = torch.bmm(episodes.class_means, episodes.features)
    w = means + 0.1 * torch.randn(means.shape, generator=torch.Generator().manual_seed(seed)).double()
    value, gradient, _ = loss.at(w, episodes.features)
    for i, (support, labels, query) in enumerate(tasks(episodes)):
        expected = oracle.loss(support, labels, query, w[i].tolist(), weights, temperature, alpha)
        # Below alpha = 1 what is held back at p = 1e-12 can be seen.
        close = 1.0 if alpha >= 1 else 1e4
        torch.testing.assert_close(float(value[i]), expected, rtol=1e-8, atol=1e-9 * close)
        k, d = seed % 3, seed % 4
        ends = []
        for step in (1e-5, -1e-5):
            moved = w[i].clone()
            moved[k, d] += step
            ends.append(oracle.loss(support, labels, query, moved.tolist(), weights, temperature, alpha))
        torch.testing.assert_close(float(gradient[i, k, d]), (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7 * close)


@pytest.mark.parametrize("kind", [TIMGD, AlphaTIM])
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 100_000), way=st.integers(1, 4), shot=st.sampled_from([1, 5]), masked=st.booleans())
def test_by_inner_products_it_is_adam_of_the_features(kind: Any, seed: int, way: int, shot: int, masked: bool) -> None:
    """With one second moment a prototype; many points go by their features."""
    episodes = draw(seed, way=way, shot=shot)
    if masked:
        keep = torch.ones(2, 7, dtype=torch.bool)
        keep[1, 4:] = False
        episodes = dataclasses.replace(episodes, query_mask=keep)
    found = kind(max_iter=60, learning_rate=0.005).predict(episodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fsl.episodes.LARGEST_GRAM", 1)
        expected = kind(max_iter=60, learning_rate=0.005).predict(dataclasses.replace(episodes))
    torch.testing.assert_close(found.probabilities, expected.probabilities)
    torch.testing.assert_close(found.trace, expected.trace)


@settings(deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 100_000),
    weights=st.tuples(st.floats(0.05, 1), st.just(0.0) | st.floats(1e-9, 2), st.just(0.0) | st.floats(1e-9, 1)),
)
def test_tim_adm_agrees_with_loops(seed: int, weights: tuple[float, float, float]) -> None:
    """In inner products, as the paper's formula is in features."""
    episodes = draw(seed)
    given = dict(zip(("cross_entropy", "marginal", "conditional"), weights, strict=True))
    strategy = small_tasks.with_constants(TIMADM, transform="UN", temperature=3.0, max_iter=8, **given)
    found = strategy.predict(episodes).probabilities
    for i, task in enumerate(tasks(episodes)):
        expected = oracle.tim_adm(*task, 3, weights, 3.0, 8)
        torch.testing.assert_close(found[i], torch.tensor(expected, dtype=torch.float64), atol=1e-8, rtol=0)


def close_together(seed: int, batch: int, spread: float) -> tuple[Episodes, torch.Tensor]:
    """Tasks of unit vectors that lie around one direction, and their queries' classes."""
    generator = torch.Generator().manual_seed(seed)
    labels, hidden = torch.arange(5).expand(batch, -1), torch.arange(5).repeat_interleave(15).expand(batch, -1)
    centres = torch.randn(batch, 5, 60, generator=generator)
    places = torch.cat([labels, hidden], dim=1)[..., None].expand(-1, -1, 60)
    points = centres.gather(1, places) + 2 * torch.randn(batch, 80, 60, generator=generator)
    points = spread * points
    points[..., 0] += 1
    return Episodes(points[:, :5], labels, points[:, 5:], 5), hidden


def test_a_guard_keeps_tim_adm_from_flying_off() -> None:
    """The published steps are too long for points that lie close together."""
    episodes, hidden = close_together(0, batch=20, spread=0.005)
    guarded, published = (TIMADM("L2N", variant=form).predict(episodes) for form in ("corrected", "published"))  # type: ignore[arg-type]
    right = [float((found.labels == hidden).double().mean()) for found in (guarded, published)]
    largest = [
        float(torch.nn.functional.one_hot(found.labels).double().mean(1).max()) for found in (guarded, published)
    ]
    assert right[0] > right[1] + 0.05
    assert largest[0] < 0.5  # share of the queries that a class got, of a fifth that it has
    assert largest[1] == 1


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
            support, query = paddle_loops.min_max(support, query)
        expected, objectives = paddle_loops.paddle(support, labels, query, 3, weight, rounds)
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
        scaled = paddle_loops.min_max(episodes.support[i].tolist(), episodes.query[i].tolist())
        expected, _ = paddle_loops.paddle(scaled[0], labels, scaled[1], 3, weight, rounds)
        torch.testing.assert_close(found.probabilities[i].double(), torch.tensor(expected).double(), atol=1e-4, rtol=0)
        assert found.labels[i].tolist() == [max(range(3), key=row.__getitem__) for row in expected]
