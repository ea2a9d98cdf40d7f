"""Label propagation against loops, and its limits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.strategies.label_propagation import LabelPropagation
from fsl.strategies.simpleshot import SimpleShot
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw, turned


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["UN", "L2N", "CL2N"]),
    neighbours=st.integers(1, 16),
    alpha=st.just(0.0) | st.floats(0.05, 0.99),
    width=st.floats(0.3, 2),
)
def test_it_agrees_with_loops(seed: int, transform: str, neighbours: int, alpha: float, width: float) -> None:
    episodes = draw(seed)
    strategy = LabelPropagation(transform=transform, neighbours=neighbours, alpha=alpha, width=width)  # type: ignore[arg-type]
    found = strategy.predict(episodes)
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = oracle.label_propagation(*task, 3, neighbours, alpha, width)
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=1e-6, rtol=1e-6)


def test_without_propagation_a_query_goes_by_the_support_means() -> None:
    """alpha = 0 reaches no query."""
    episodes = draw(2)
    found = LabelPropagation(alpha=0).predict(episodes)
    torch.testing.assert_close(found.probabilities, SimpleShot().predict(episodes).probabilities)


def test_an_island_without_support_goes_by_the_support_means() -> None:
    support = torch.tensor([[[0.0, 0.0], [0.1, 0.0], [10.0, 0.0], [10.1, 0.0]]])
    near, island = [[0.0, 0.1], [10.0, 0.1]], [[7.0, 90.0], [7.0, 90.1], [7.1, 90.0]]
    episodes = Episodes(support, torch.tensor([[0, 0, 1, 1]]), torch.tensor([near + island]), 2)
    found = LabelPropagation(transform="UN", neighbours=2, width=1.0).predict(episodes).labels
    assert found.tolist() == [[0, 1, 1, 1, 1]]


def test_labels_follow_a_chain_that_means_do_not() -> None:
    """Two parallel rows of points, labelled at opposite ends."""
    along = torch.arange(0, 10, 0.5)
    rows = [torch.stack([along, torch.full_like(along, height)], dim=1) for height in (0.0, 2.0)]
    support = torch.stack([rows[0][0], rows[1][-1]])[None]
    query = torch.cat([rows[0][1:], rows[1][:-1]])[None]
    episodes = Episodes(support, torch.tensor([[0, 1]]), query, 2)
    expected = torch.arange(2).repeat_interleave(19)[None]
    found = LabelPropagation(transform="UN", neighbours=2, width=1.0).predict(episodes)
    assert torch.equal(found.labels, expected)
    assert not torch.equal(SimpleShot(transform="UN").predict(episodes).labels, expected)


def test_rotations_translations_and_scalings_change_nothing() -> None:
    """The kernel's width is a distance of the task."""
    episodes = draw(9)
    away = turned(episodes, moved=1, scaled=5)
    strategy = LabelPropagation(transform="UN")
    torch.testing.assert_close(strategy.predict(away).probabilities, strategy.predict(episodes).probabilities)


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 100_000),
    neighbours=st.integers(3, 16),
    alpha=st.just(0.0) | st.floats(0.05, 0.99),
    width=st.floats(0.7, 2),
)
def test_many_points_agree_with_loops(seed: int, neighbours: int, alpha: float, width: float) -> None:
    strategy = LabelPropagation(neighbours=neighbours, alpha=alpha, width=width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fsl.episodes.LARGEST_GRAM", 0)
        found = strategy.predict(draw(seed))
    for rows, task in zip(found.probabilities, as_arrays(draw(seed), "CL2N"), strict=True):
        expected = oracle.label_propagation(*task, 3, neighbours, alpha, width)
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("field", "value"), [("alpha", 1.0), ("alpha", -0.1), ("neighbours", 0), ("width", 0.0)])
def test_wrong_values_name_the_field(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        LabelPropagation(**{field: value})  # type: ignore[arg-type]
