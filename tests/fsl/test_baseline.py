"""Baseline and Baseline++ against torch's own layers and optimiser, and what their random draws depend on."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.strategies.baseline import Baseline
from fsl.strategies.baseline_plus_plus import BaselinePlusPlus
from fsl.strategies.shared.linear_heads import Draw
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw

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
    momentum=st.sampled_from([0.0, 0.9]),
    dampening=st.sampled_from([0.0, 0.9]),
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
    found = kind(transform=transform, batch=batch, epochs=6, seed=seed, **options).predict(episodes)  # type: ignore[arg-type]
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
            **options,
        )
        torch.testing.assert_close(found.probabilities[i], torch.from_numpy(expected))
        assert found.iterations[i] == steps


@both
def test_the_seed_decides(kind: type[Baseline] | type[BaselinePlusPlus]) -> None:
    episodes = draw(1)
    first, again = (kind(epochs=3).predict(episodes).probabilities for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, kind(epochs=3, seed=1).predict(episodes).probabilities, atol=1e-3)


@both
def test_trained_for_long_it_fits_its_support(kind: type[Baseline] | type[BaselinePlusPlus]) -> None:
    episodes = draw(2, dim=20)
    onto_itself = dataclasses.replace(episodes, query=episodes.support)
    strategy = kind(learning_rate=0.1, epochs=300)
    assert torch.equal(strategy.predict(onto_itself).labels, episodes.support_labels)


@both
@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 100_000))
def test_renamed_classes_and_reordered_examples_give_the_same_head(
    kind: type[Baseline] | type[BaselinePlusPlus], seed: int
) -> None:
    episodes = draw(seed)
    generator = torch.Generator().manual_seed(seed)
    rename, order = torch.randperm(3, generator=generator), torch.randperm(6, generator=generator)
    renamed = dataclasses.replace(
        episodes, support=episodes.support[:, order], support_labels=rename[episodes.support_labels[:, order]]
    )
    found = kind().predict(renamed).probabilities[..., rename]
    torch.testing.assert_close(found, kind().predict(episodes).probabilities)


def test_draws_are_uniform_and_epochs_differ() -> None:
    drawn = Draw.of(draw(0, batch=2, way=40, shot=2, dim=400), 0, 5)
    assert float(drawn.weights.abs().max()) <= 0.05 < 1.001 * float(drawn.weights.abs().max())
    assert abs(float(drawn.weights.mean())) < 1e-3
    assert torch.equal(drawn.positions.sort(-1).values, torch.arange(80).expand(2, 5, -1))
    assert not torch.equal(drawn.positions[:, 0], drawn.positions[:, 1])
    assert torch.equal(drawn.slots.sort(-1).values, torch.arange(40).expand(2, -1))


def test_the_scale_of_many_ways() -> None:
    """More than 200 have 10 in the public code."""
    episodes = draw(3, batch=1, way=201, shot=1, queries=2)
    found = BaselinePlusPlus(epochs=1).predict(episodes).probabilities
    torch.testing.assert_close(found, BaselinePlusPlus(epochs=1, scale=10.0).predict(episodes).probabilities)


@both
def test_too_large_a_support_is_refused(
    kind: type[Baseline] | type[BaselinePlusPlus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fsl.strategies.shared.linear_heads.LARGEST_SUPPORT", 5)
    with pytest.raises(InputError, match=r"6; .*fewer shots"):
        kind().predict(draw(1))


@both
@pytest.mark.parametrize(("field", "value"), [("learning_rate", 0.0), ("momentum", 1.5), ("batch", 0), ("seed", 0.5)])
def test_wrong_values_name_the_field(kind: type[Baseline] | type[BaselinePlusPlus], field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        kind(**{field: value})  # type: ignore[arg-type]
