"""Heads on fixed features against loops and torch's own layers: nearest, means, trained, propagated labels."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.strategies import nearest
from fsl.strategies.baseline import Baseline, BaselinePlusPlus
from fsl.strategies.bd_cspn import BDCSPN
from fsl.strategies.label_propagation import LabelPropagation
from fsl.strategies.nearest import MatchingNet, Nearest
from fsl.strategies.shared.linear_heads import Draw
from fsl.strategies.simpleshot import ProtoNet
from fsl.strategies.tim_gd import EntropyMin
from fsl.transforms import Transform, transform_features
from tests.oracles import fewshot_loops
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw, with_constants

transforms = st.sampled_from(["UN", "L2N", "CL2N"])
HEADS: Mapping[Any, tuple[dict[str, Any], Callable[..., Any]]] = {
    Nearest: ({}, lambda *task: np.eye(3)[oracle.nearest(*task)]),
    MatchingNet: ({}, lambda *task: oracle.matchingnet(*task, 3, temperature=1.0)),
    ProtoNet: ({}, lambda *task: oracle.protonet(*task, 3, 1.0)),
    BDCSPN: (
        {
            "shift": st.booleans(),
            "temperature": st.floats(0.5, 20),
            "variant": st.sampled_from(["corrected", "published"]),
        },
        lambda *task, **fields: oracle.bd_cspn(*task, 3, **fields),
    ),
    LabelPropagation: (
        {
            "n_neighbors": st.integers(3, 16),
            "alpha": st.just(0.0) | st.floats(0.05, 0.99),
            "width": st.floats(0.7, 2),
        },
        lambda *task, **fields: oracle.label_propagation(*task, 3, **fields),
    ),
}


@pytest.mark.parametrize("limit", [1024, 0])
@pytest.mark.parametrize("kind", HEADS)
@settings(deadline=None, max_examples=12)
@given(data=st.data(), seed=st.integers(0, 100_000), shot=st.integers(1, 3), transform=transforms)
def test_it_agrees_with_loops(kind: Any, limit: int, data: st.DataObject, seed: int, shot: int, transform: str) -> None:
    """By inner products, and as tasks of many points."""
    options, loops = HEADS[kind]
    fields = {name: data.draw(values) for name, values in options.items()}
    episodes = draw(seed, shot=shot)
    norms = torch.cat([episodes.support, episodes.query], dim=1).norm(dim=2)
    assume(float((norms - 1).abs().min()) > 2e-3)  # rows of norm 1 up to half precision are not normalised again
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fsl.episodes.LARGEST_GRAM", limit)
        found = with_constants(kind, transform=transform, **fields).predict(episodes).probabilities
    for rows, task in zip(found, as_arrays(episodes, transform), strict=True):
        torch.testing.assert_close(rows, torch.from_numpy(loops(*task, **fields)), atol=1e-5, rtol=0)


def test_many_points_are_compared_a_few_queries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = draw(1, queries=40)
    strategies = (Nearest(), MatchingNet(transform="UN"))
    expected = [strategy.predict(episodes).probabilities for strategy in strategies]
    monkeypatch.setattr(nearest, "_AT_ONCE", 200)
    for strategy, before in zip(strategies, expected, strict=True):
        torch.testing.assert_close(strategy.predict(episodes).probabilities, before)


def test_a_class_that_attracts_no_point_keeps_its_mean() -> None:
    """fewshot.md 2.4: the public code drops the row and shifts the class indices."""
    support = torch.tensor([[[1.0, 0.02], [1.0, -0.02], [1.0, 0.01], [-0.2, 1.0], [0.9, 0.5], [0.9, -0.5]]])
    labels = torch.tensor([[0, 0, 1, 1, 2, 2]])
    query = torch.tensor([[[1.0, 0.0], [0.9, 0.51]]])
    strategy = BDCSPN.as_published(transform="UN", shift=False)
    found = strategy.predict(Episodes(support.double(), labels, query.double(), 3))
    task = support[0].double().numpy(), labels[0].tolist(), query[0].double().numpy()
    expected = oracle.bd_cspn(*task, 3, shift=False, temperature=10.0, variant="published")
    torch.testing.assert_close(found.probabilities[0], torch.from_numpy(expected))


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 100_000),
    transform=transforms,
    temperature=st.floats(1, 20),
    weight=st.just(0.0) | st.floats(1e-9, 3),
    learning_rate=st.floats(1e-5, 0.05),
)
def test_entropy_minimisation_agrees_with_autograd(seed: int, transform: str, weight: float, **options: Any) -> None:
    episodes = draw(seed)
    found = with_constants(EntropyMin, transform=transform, max_iter=12, conditional=weight, **options).predict(
        episodes
    )
    assert found.trace is not None
    for i, task in enumerate(as_arrays(episodes, transform)):
        expected, losses = oracle.entropy_min(*task, 3, iterations=12, weight=weight, **options)
        torch.testing.assert_close(found.probabilities[i], torch.from_numpy(expected), atol=1e-4, rtol=1e-4)
        assert found.trace[: len(losses), i].tolist() == pytest.approx(losses, abs=1e-4, rel=1e-4)


both = pytest.mark.parametrize("kind", [Baseline, BaselinePlusPlus])


def with_padding(episodes: Episodes, seed: int) -> Episodes:
    """Some examples left out; every class keeps its first."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(episodes.support_labels.shape, generator=generator) > 0.3
    mask[:, :: episodes.support_labels.shape[1] // episodes.way] = True
    return dataclasses.replace(episodes, support_mask=mask)


@both
@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["UN", "L2N", "CL2N"]),
    shot=st.integers(1, 3),
    batch=st.integers(1, 7),
    learning_rate=st.floats(0.001, 0.1),
    weight_decay=st.sampled_from([0.0, 0.001, 0.1]),
    padded=st.booleans(),
)
def test_it_agrees_with_torch(
    kind: type[Baseline] | type[BaselinePlusPlus],
    seed: int,
    transform: str,
    shot: int,
    batch: int,
    padded: bool,
    **options: float,
) -> None:
    episodes = draw(seed, shot=shot)
    if padded:
        episodes = with_padding(episodes, seed)
    made = with_constants(kind, transform=transform, batch=batch, epochs=6, seed=seed, **options)
    found = made.predict(episodes)
    drawn = Draw.of(episodes.transformed(transform), seed, 6)  # type: ignore[arg-type]
    for i, (support, labels, query) in enumerate(as_arrays(episodes, transform)):
        mask = np.ones(episodes.support_size, bool) if not padded else episodes.support_mask[i].numpy()  # type: ignore[index]
        places = drawn.positions[i].numpy()[:, mask]
        expected, steps = oracle.trained_head(
            support,
            labels,
            query,
            drawn.weights[drawn.slots[i]].numpy(),
            drawn.bias[drawn.slots[i]].numpy() if kind is Baseline else None,
            [np.argsort(place).tolist() for place in places],
            batch=batch,
            scale=2.0,
            momentum=0.9,
            dampening=0.9,
            **options,
        )
        torch.testing.assert_close(found.probabilities[i], torch.from_numpy(expected))
        assert found.iterations[i] == steps


@both
def test_too_large_a_support_is_refused(
    kind: type[Baseline] | type[BaselinePlusPlus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fsl.strategies.shared.linear_heads.LARGEST_SUPPORT", 5)
    with pytest.raises(InputError, match=r"6; .*fewer shots"):
        kind().predict(draw(1))


NAMES: tuple[Transform, ...] = ("UN", "L2N", "CL2N", "PT")


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(NAMES))
def test_transforms_agree_with_loops(seed: int, name: Transform) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(5, 7, generator=generator, dtype=torch.float64).relu()
    mean = torch.rand(7, generator=generator, dtype=torch.float64)
    before = features.clone()
    expected = fewshot_loops.transform(features.numpy(), name, mean.numpy())
    torch.testing.assert_close(transform_features(features, name, mean), torch.from_numpy(expected))
    assert torch.equal(features, before)


def test_the_power_transform_refuses_negative_features() -> None:
    features = torch.rand(3, 4)
    features[1, 2] = -0.25
    with pytest.raises(InputError, match=r"PT .*non-negative.*-0\.25.*transform=L2N"):
        transform_features(features, "PT")
