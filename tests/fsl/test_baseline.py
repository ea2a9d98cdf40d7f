"""Baseline and Baseline++ against torch's own layers and optimiser, and what their random draws depend on."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.strategies.baseline import Baseline, BaselinePlusPlus
from fsl.strategies.shared.linear_heads import Draw
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw, with_constants

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
