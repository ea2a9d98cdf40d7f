"""PADDLE and soft K-means: loops, descent, limits, scaling."""

import dataclasses
import functools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from clustering.optimiser.points import Features, squared_distances
from fsl.episodes import Episodes
from fsl.strategies.paddle import PADDLE, SoftKMeans
from fsl.strategies.shared.scaling import min_max_points
from tests.oracles import paddle_loops as oracle
from tests.oracles import small_tasks
from tests.oracles.small_tasks import changed, turned

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
    options: dict[str, Any] = {"transform": "UN", "scaling": "min-max" if scale else None, "beta": 1.0}
    strategy = PADDLE(weight=weight, rounds=rounds, tolerance=0, **options)
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
        soft = SoftKMeans(rounds=rounds, tolerance=0, **options).predict(episodes)
        torch.testing.assert_close(soft.probabilities, found.probabilities)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 100_000), weight=st.just(0.0) | st.floats(1e-9, 5), single=st.booleans(), scaled=st.booleans()
)
def test_the_objective_never_rises(seed: int, weight: float, single: bool, scaled: bool) -> None:
    episodes = draw(seed, batch=4, queries=25, way=5)
    if single:
        episodes = dataclasses.replace(episodes, support=episodes.support.float(), query=episodes.query.float())
    strategy = PADDLE.as_published(weight=weight) if scaled else PADDLE(transform="L2N", weight=weight, tolerance=0)
    found = strategy.predict(episodes)
    assert found.trace is not None
    steps = found.trace[1:] - found.trace[:-1]
    rounding = (2e-6 if single else 1e-12) * (1 + found.trace.nan_to_num().abs().amax())
    assert bool((steps[~steps.isnan()] <= rounding).all())
    assert bool((found.iterations <= 100).all())


def test_no_query_is_wanted_by_classes_that_are_not_there() -> None:
    """Twelve ways, two of them present: PADDLE's own setting. Its proportions are sparser than soft K-means'."""
    generator = torch.Generator().manual_seed(0)
    centres = 1.2 * torch.randn(8, 12, 16, generator=generator)
    labels = torch.arange(12).expand(8, -1)
    hidden = torch.arange(2).repeat_interleave(15).expand(8, -1)
    support = centres + torch.randn(8, 12, 16, generator=generator)
    query = centres.gather(1, hidden[..., None].expand(-1, -1, 16)) + torch.randn(8, 30, 16, generator=generator)
    episodes = Episodes(support, labels, query, 12)
    used = []
    for strategy in (PADDLE(transform="L2N"), SoftKMeans(transform="L2N")):
        shares = strategy.predict(episodes).probabilities.mean(1)
        used.append(float((-torch.xlogy(shares, shares)).sum(1).exp().mean()))
    assert used[0] < used[1]
    assert used[0] < 5


def test_the_default_stops_near_the_end_of_all_rounds() -> None:
    episodes = draw(3, batch=30, queries=30, way=5, dim=8)
    for strategy in (PADDLE(transform="L2N"), SoftKMeans(transform="L2N")):
        whole = dataclasses.replace(strategy, tolerance=0).predict(episodes)
        assert float((strategy.predict(episodes).labels == whole.labels).double().mean()) > 0.99


def test_beta_goes_by_the_shots() -> None:
    episodes = draw(2, shot=4)
    for kind in (PADDLE, SoftKMeans):
        found, expected = kind().predict(episodes).probabilities, kind(beta=100.0).predict(episodes).probabilities
        torch.testing.assert_close(found, expected)


def test_beta_is_the_square_of_a_factor_of_the_features() -> None:
    episodes = draw(7)
    longer = changed(episodes, lambda features: 1.5 * features)
    for kind in (PADDLE, SoftKMeans):
        found, expected = (kind(transform="UN", beta=beta) for beta in (2.25, 1.0))
        torch.testing.assert_close(found.predict(episodes).probabilities, expected.predict(longer).probabilities)


def test_scaling_and_translation_of_channels_change_nothing() -> None:
    episodes = draw(4)
    by, move = torch.tensor([0.5, 3.0, 4.0, 1.0]).double(), torch.tensor([5.0, -3.0, 0.0, 1.0]).double()
    moved = dataclasses.replace(episodes, support=episodes.support * by + move, query=episodes.query * by + move)
    torch.testing.assert_close(
        PADDLE.as_published().predict(moved).probabilities, PADDLE.as_published().predict(episodes).probabilities
    )


def test_without_scaling_a_rotation_changes_nothing() -> None:
    episodes = draw(5)
    away = turned(episodes)
    strategy = PADDLE(transform="UN")
    torch.testing.assert_close(strategy.predict(away).probabilities, strategy.predict(episodes).probabilities)


@pytest.mark.parametrize("limit", [1, 1024])
@pytest.mark.parametrize("masked", [False, True])
def test_scaled_points_have_the_public_code_distances(
    limit: int, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks of one task; the public code leaves a channel that is constant over the queries as wide as it is."""
    monkeypatch.setattr("fsl.strategies.shared.scaling.LARGEST_GRAM", limit)
    monkeypatch.setattr("fsl.strategies.shared.scaling._CACHED", 1)
    episodes = draw(6, batch=3)
    query, keep = episodes.query.clone(), torch.ones(3, 7, dtype=torch.bool)
    query[..., 1] = 2.0
    episodes = dataclasses.replace(episodes, support=episodes.support.clone())
    episodes.support[..., 1] = 2.0
    if masked:
        keep[0, 5:] = False
        query[0, 5], query[0, 6] = 100.0, -100.0
    episodes = dataclasses.replace(episodes, query=query, query_mask=keep if masked else None)
    points = min_max_points(episodes)
    assert isinstance(points, Features) == (limit == 1)
    found = squared_distances(points, episodes.class_means)
    for i in range(3):
        support, real = oracle.min_max(episodes.support[i].tolist(), query[i, keep[i]].tolist())
        means = oracle.centres(support, episodes.support_labels[i].tolist(), real, 3, [[0.0] * 3] * len(real))
        expected = [[oracle.distance(x, w) for x in support + real] for w in means]
        torch.testing.assert_close(found[i, :, : len(expected[0])], torch.tensor(expected).double())


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


@pytest.mark.parametrize(
    ("field", "value"), [("weight", -1.0), ("scaling", "minmax"), ("rounds", 0), ("tolerance", "no")]
)
def test_wrong_values_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=field):
        PADDLE(**{field: value})
