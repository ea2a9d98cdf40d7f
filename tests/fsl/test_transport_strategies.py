"""PT-MAP, BPA, protoLP and iLPC against loops, and what optimal transport to balanced classes implies."""

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from clustering.optimiser.points import Features
from fsl.episodes import Episodes
from fsl.extra.soft_slk import SoftSLK
from fsl.strategies import pt_map
from fsl.strategies.ilpc import ILPC
from fsl.strategies.pt_map import BPA, PTMAP, ProtoLP
from fsl.strategies.shared.centring import centred
from fsl.strategies.zero_shot import ZeroShot
from tests.oracles import transport_loops as oracle
from tests.oracles.small_tasks import with_constants


def draw(
    seed: int, batch: int = 2, way: int = 3, shot: int = 2, queries: int = 9, dim: int = 8, dtype: Any = torch.float64
) -> Episodes:
    """Non-negative features around random centres; queries as many of each class as they come."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(way).repeat_interleave(shot).expand(batch, -1)
    hidden = torch.arange(queries).remainder(way)
    centres = torch.randn(batch, way, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(batch, way * shot + queries, dim, generator=generator, dtype=torch.float64)
    points = centres[:, torch.cat([labels[0], hidden])] + 0.7 * noise
    points = points.relu().to(dtype) + 0.01
    return Episodes(points[:, : way * shot], labels, points[:, way * shot :], way)


def each_task(episodes: Episodes) -> list[tuple[Any, list[int], Any, int]]:
    parts = zip(episodes.support, episodes.support_labels, episodes.query, strict=True)
    return [(support.numpy(), labels.tolist(), query.numpy(), episodes.way) for support, labels, query in parts]


def options(strategy: object, *names: str) -> dict[str, Any]:
    return {name: getattr(strategy, name) for name in names}


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 100_000),
    shot=st.integers(1, 2),
    centring=st.sampled_from(["apart", "together", None]),
    beta=st.sampled_from([1.0, 2.5]),
    rate=st.sampled_from([0.2, 1.0]),
)
def test_pt_map_agrees_with_loops(seed: int, shot: int, **given_options: Any) -> None:
    strategy = with_constants(PTMAP, max_iter=4, **given_options)
    episodes = draw(seed, shot=shot)
    chosen = options(strategy, "centring", "beta", "rate", "max_iter")
    expected = np.stack([oracle.pt_map(*task, **chosen) for task in each_task(episodes)])
    torch.testing.assert_close(strategy.predict(episodes).probabilities, torch.from_numpy(expected), atol=2e-5, rtol=0)


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 100_000), shot=st.integers(1, 2), regularisation=st.sampled_from([0.3, 1.0]))
def test_bpa_agrees_with_loops(seed: int, shot: int, regularisation: float) -> None:
    strategy = with_constants(BPA, beta=1.0, max_iter=3, regularisation=regularisation)
    episodes = draw(seed, shot=shot)
    chosen = options(strategy, "regularisation", "beta", "rate", "max_iter")
    expected = np.stack([oracle.bpa(*task, **chosen) for task in each_task(episodes)])
    torch.testing.assert_close(strategy.predict(episodes).probabilities, torch.from_numpy(expected), atol=5e-5, rtol=0)


def test_affinities_are_symmetric_and_balanced() -> None:
    episodes = draw(1)
    valid = torch.ones(2, 15, dtype=torch.bool)
    valid[0, 11:] = False
    found = with_constants(BPA, regularisation=0.5).affinities(centred(episodes, episodes.features, "apart"), valid)
    torch.testing.assert_close(found, found.mT, atol=2e-5, rtol=0)
    torch.testing.assert_close(found.sum(1), valid.double(), atol=2e-5, rtol=0)
    torch.testing.assert_close(found.sum(2), valid.double(), atol=2e-5, rtol=0)
    assert float(found.diagonal(dim1=1, dim2=2).abs().max()) == 0


def test_affinities_of_too_many_points_are_refused() -> None:
    with pytest.raises(InputError, match="fewer queries"):
        BPA().affinities(Features(torch.zeros(1, 20_000, 1)), torch.ones(1, 20_000, dtype=torch.bool))


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 100_000),
    shot=st.integers(1, 2),
    dimensions=st.sampled_from([4, 40]),
    centring=st.sampled_from(["apart", "together"]),
    laplacian=st.sampled_from(["random_walk", "graph"]),
    gamma=st.sampled_from([0.05, 1.0]),
    mix=st.sampled_from([0.0, 0.6, 1.0]),
)
def test_protolp_agrees_with_loops(seed: int, shot: int, dimensions: int, **given_options: Any) -> None:
    strategy = with_constants(ProtoLP, max_iter=3, beta=2.5, **given_options)
    episodes = draw(seed, shot=shot)
    chosen = options(strategy, "centring", "beta", "laplacian", "gamma", "mix", "rate", "max_iter")
    expected = np.stack([oracle.protolp(*task, dimensions=dimensions, **chosen) for task in each_task(episodes)])
    with mock.patch.object(pt_map, "DIMENSIONS", dimensions):
        found = strategy.predict(episodes).probabilities
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=5e-5, rtol=0)


@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 100_000),
    shot=st.integers(1, 2),
    n_neighbors=st.sampled_from([2, 4, 20]),
    alpha=st.sampled_from([0.2, 0.8]),
    keep=st.integers(1, 3),
    queries=st.sampled_from([9, 14]),
)
def test_ilpc_agrees_with_loops(seed: int, shot: int, queries: int, **given_options: Any) -> None:
    strategy = with_constants(ILPC, steps=15, **given_options)
    episodes = draw(seed, shot=shot, queries=queries)
    chosen = options(strategy, "centring", "n_neighbors", "alpha", "keep", "steps")
    expected = [oracle.ilpc(*task, power_of_labels=strategy.power, **chosen) for task in each_task(episodes)]
    found = strategy.predict(episodes)
    best = found.probabilities.topk(2, dim=2).values
    assume(float((best[..., 0] - best[..., 1]).min()) > 0.02)
    # Near ties go either way: in the end they are left out above, but one in an earlier round may still cost a query.
    assert int((found.labels != torch.tensor(expected)).sum()) <= 1


SHORT = [with_constants(kind, max_iter=5) for kind in (PTMAP, BPA, ProtoLP)] + [with_constants(ILPC, steps=20)]


@pytest.mark.parametrize("strategy", [*SHORT, SoftSLK(transform="L2N"), ZeroShot()])
@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 1000), shares=st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any))
def test_the_queries_have_the_proportions_that_are_stated(strategy: Any, seed: int, shares: list[int]) -> None:
    episodes = replace(draw(seed), prior=torch.full((2, 9, 3), 1 / 3, dtype=torch.float64))
    stated = replace(strategy, proportions=tuple(shares))
    assert stated.transductive
    assert not stated.assumes_balance
    found = stated.predict(episodes).probabilities
    torch.testing.assert_close(found.sum(2), torch.ones(2, 9, dtype=torch.float64))
    if not isinstance(strategy, ILPC):  # where each round has a plan of its own
        expected = torch.tensor(shares, dtype=torch.float64).expand(2, -1) / sum(shares)
        torch.testing.assert_close(found.mean(1), expected, atol=2e-3, rtol=0)


def test_zero_shot_with_its_own_proportions_is_zero_shot_and_labels_give_some() -> None:
    prior = torch.softmax(torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64), 2)
    episodes = replace(draw(0), prior=prior)
    own = tuple(prior[0].mean(0).tolist())
    torch.testing.assert_close(
        ZeroShot(proportions=own).predict(episodes).probabilities[0], prior[0], atol=1e-5, rtol=0
    )
    labelled = replace(episodes, support_labels=torch.tensor([[0, 0, 0, 0, 1, 2]] * 2))
    found = ZeroShot(proportions="labels").predict(labelled).probabilities.mean(1)
    torch.testing.assert_close(found[0], torch.tensor([5, 2, 2]) / 9.0, atol=1e-5, rtol=0, check_dtype=False)


def test_proportions_of_other_classes_are_refused() -> None:
    for wrong in ((1.0, 2.0), (0.0, 0.0, 0.0)):
        with pytest.raises(InputError, match=r"give one number per class of 3, .* at least one above 0"):
            PTMAP(proportions=wrong).predict(draw(0))
