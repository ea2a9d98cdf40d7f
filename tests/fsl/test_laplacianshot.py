"""LaplacianShot and SimpleShot against loops, and the identities between them."""

from typing import Any
from unittest import mock

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.episodes import Episodes
from fsl.strategies.laplacianshot import STEPS, LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from tests.oracles import fewshot_loops as oracle
from tests.oracles.small_tasks import draw, with_constants


def by_loops(episodes: Episodes, strategy: LaplacianShot, iterations: int) -> torch.Tensor:
    options = {
        name: getattr(strategy, name)
        for name in ("weight", "n_neighbors", "graph", "shift", "rectify", "temperature", "variant")
    }
    assert episodes.base_mean is not None
    mean = episodes.base_mean.numpy()
    results = []
    for support, labels, query in zip(episodes.support, episodes.support_labels, episodes.query, strict=True):
        results.append(
            oracle.laplacianshot(
                oracle.transform(support.numpy(), strategy.transform, mean),
                labels.tolist(),
                oracle.transform(query.numpy(), strategy.transform, mean),
                episodes.way,
                iterations=iterations,
                **options,
            )
        )
    return torch.from_numpy(np.stack(results))


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["UN", "L2N", "CL2N"]),
    weight=st.floats(0.1, 2),
    n_neighbors=st.integers(1, 5),
    graph=st.sampled_from(["average", "union", "mutual", "directed"]),
    shift=st.booleans(),
    rectify=st.booleans(),
    temperature=st.sampled_from([1.0, 10.0]),
    variant=st.sampled_from(["corrected", "published", "alpha_tim"]),
)
def test_every_option_agrees_with_loops(seed: int, **options: Any) -> None:
    """Seven updates from the start, without the stop by a small change. With a symmetric graph, the weight is so small
    that the guard rejects none."""
    options["shift"] |= options["variant"] == "alpha_tim"  # without a shift it is refused
    if options["graph"] != "directed":
        options["weight"] /= 8 * options["n_neighbors"]
    strategy = with_constants(LaplacianShot, **options)
    episodes = draw(seed)
    with mock.patch.dict(STEPS, {strategy.variant: (7, 0.0)}):
        found = strategy.predict(episodes)
    expected = by_loops(episodes, strategy, 7)
    settled = found.iterations < 7  # a change of exactly 0 stops a task early
    torch.testing.assert_close(found.probabilities[~settled], expected[~settled], atol=1e-8, rtol=0)
    torch.testing.assert_close(found.probabilities[settled], expected[settled], atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 100_000), transform=st.sampled_from(["UN", "L2N", "CL2N"]))
def test_without_weight_shift_and_rectification_it_is_simpleshot(seed: int, transform: str) -> None:
    episodes = draw(seed, queries=20)
    plain = LaplacianShot(transform=transform, weight=0, rectify=False, shift=False)  # type: ignore[arg-type]
    expected = SimpleShot(transform=transform).predict(episodes)  # type: ignore[arg-type]
    found = plain.predict(episodes)
    assert torch.equal(found.labels, expected.labels)
    torch.testing.assert_close(found.probabilities, expected.probabilities)


def test_the_public_code_shifts_only_where_it_rectifies() -> None:
    assert LaplacianShot.as_published().shift
    assert not LaplacianShot.as_published(rectify=False).shift
    assert LaplacianShot.as_published(rectify=False, shift=True).shift
