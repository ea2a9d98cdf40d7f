"""PT-MAP, BPA, protoLP and iLPC against loops, and what optimal transport to balanced classes implies."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fsl.episodes
import fsl.strategies.ilpc
from clustering.foundation.errors import InputError
from clustering.optimiser.points import Features, Gram
from clustering.optimiser.transport import sinkhorn
from fsl.episodes import Episodes
from fsl.strategies.ilpc import ILPC
from fsl.strategies.pt_map import BPA, PTMAP, ProtoLP
from fsl.strategies.shared.centring import centred, leading
from fsl.strategies.shared.denoising import mean_losses
from tests.oracles import transport_loops as oracle
from tests.oracles.small_tasks import turned

ALL = [PTMAP(iterations=5), BPA(iterations=5), ProtoLP(iterations=5), ILPC(steps=20)]


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
    strategy = PTMAP(iterations=4, tolerance=1e-12, max_rounds=3000, **given_options)
    episodes = draw(seed, shot=shot)
    chosen = options(strategy, "centring", "beta", "rate", "iterations")
    expected = np.stack([oracle.pt_map(*task, **chosen) for task in each_task(episodes)])
    torch.testing.assert_close(strategy.predict(episodes).probabilities, torch.from_numpy(expected), atol=1e-6, rtol=0)


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 100_000), shot=st.integers(1, 2), regularisation=st.sampled_from([0.3, 1.0]))
def test_bpa_agrees_with_loops(seed: int, shot: int, regularisation: float) -> None:
    strategy = BPA(beta=1.0, iterations=3, regularisation=regularisation, tolerance=1e-12, max_rounds=3000)
    episodes = draw(seed, shot=shot)
    chosen = options(strategy, "regularisation", "beta", "rate", "iterations")
    expected = np.stack([oracle.bpa(*task, **chosen) for task in each_task(episodes)])
    torch.testing.assert_close(strategy.predict(episodes).probabilities, torch.from_numpy(expected), atol=1e-5, rtol=0)


def test_affinities_are_symmetric_and_balanced() -> None:
    episodes = draw(1)
    valid = torch.ones(2, 15, dtype=torch.bool)
    valid[0, 11:] = False
    found = BPA(regularisation=0.5, tolerance=1e-9).affinities(centred(episodes, episodes.points, "apart"), valid)
    torch.testing.assert_close(found, found.mT, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.sum(1), valid.double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(found.sum(2), valid.double(), atol=1e-6, rtol=0)
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
def test_protolp_agrees_with_loops(seed: int, shot: int, **given_options: Any) -> None:
    strategy = ProtoLP(iterations=3, beta=2.5, tolerance=1e-12, max_rounds=3000, **given_options)
    episodes = draw(seed, shot=shot)
    names = ("dimensions", "centring", "beta", "laplacian", "gamma", "mix", "rate", "iterations")
    expected = np.stack([oracle.protolp(*task, **options(strategy, *names)) for task in each_task(episodes)])
    torch.testing.assert_close(strategy.predict(episodes).probabilities, torch.from_numpy(expected), atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 100_000),
    shot=st.integers(1, 2),
    neighbours=st.sampled_from([2, 4, 20]),
    alpha=st.sampled_from([0.2, 0.8]),
    keep=st.integers(1, 3),
    queries=st.sampled_from([9, 14]),
)
def test_ilpc_agrees_with_loops(seed: int, shot: int, queries: int, **given_options: Any) -> None:
    strategy = ILPC(steps=15, tolerance=1e-12, max_rounds=3000, **given_options)
    episodes = draw(seed, shot=shot, queries=queries)
    chosen = options(strategy, "centring", "neighbours", "alpha", "keep", "steps", "learning_rate", "weight_decay")
    expected = [oracle.ilpc(*task, power_of_labels=strategy.power, **chosen) for task in each_task(episodes)]
    found = strategy.predict(episodes)
    best = found.probabilities.topk(2, dim=2).values
    assume(float((best[..., 0] - best[..., 1]).min()) > 0.02)
    # Near ties go either way: in the end they are left out above, but one in an earlier round may still cost a query.
    assert int((found.labels != torch.tensor(expected)).sum()) <= 1


def test_losses_agree_with_loops() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, 7, 4, generator=generator, dtype=torch.float64)
    known, labels = {0: 0, 1: 1, 2: 2, 3: 2}, {0: 0, 1: 1, 2: 2, 3: 2, 4: 0, 5: 1, 6: 1}
    one_hot = torch.nn.functional.one_hot(torch.tensor(list(labels.values()))).T[None].double()
    given_labels = one_hot * (torch.arange(7) < 4)
    expected = oracle.training_losses(x[0].numpy(), known, labels, 3, 30, 0.1, 5e-4)
    for points in (Features(x), Gram(torch.bmm(x, x.mT))):
        found = mean_losses(points, given_labels, one_hot, torch.ones(1, 7, dtype=torch.bool), steps=30)
        torch.testing.assert_close(found[0], torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("centring", ["apart", "together", None])
def test_centring_by_products_equals_centring_of_features(centring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = draw(3)
    expected = np.stack(
        [np.concatenate(oracle.centre(support, query, centring)) for support, _, query, _ in each_task(episodes)]
    )
    products = torch.from_numpy(expected @ expected.transpose(0, 2, 1))
    torch.testing.assert_close(centred(episodes, episodes.points, centring).pairwise(), products)
    monkeypatch.setattr(fsl.episodes, "LARGEST_GRAM", 0)
    again = draw(3)
    torch.testing.assert_close(centred(again, again.points, centring).pairwise(), products)


@pytest.mark.parametrize("strategy", ALL, ids=lambda s: type(s).__name__)
def test_many_points_are_treated_by_their_features_alike(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = draw(8, queries=12)
    expected = strategy.predict(episodes).probabilities
    monkeypatch.setattr(fsl.episodes, "LARGEST_GRAM", 0)
    torch.testing.assert_close(strategy.predict(draw(8, queries=12)).probabilities, expected, atol=1e-6, rtol=0)


def test_leading_directions_keep_the_largest_part() -> None:
    episodes = draw(4)
    reduced = leading(episodes.points, 3).pairwise()
    values = torch.linalg.eigvalsh(episodes.points.pairwise())[:, -3:]
    torch.testing.assert_close(torch.linalg.eigvalsh(reduced)[:, -3:], values)
    torch.testing.assert_close(leading(episodes.points, 15).pairwise(), episodes.points.pairwise())


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 100_000), queries=st.sampled_from([6, 10, 13]))
def test_every_class_gets_its_share(seed: int, queries: int) -> None:
    """Even where the queries cannot be divided evenly: Q / K is a real number."""
    for strategy in (PTMAP(beta=2.5), BPA(beta=2.5), ProtoLP(beta=2.5, iterations=10)):
        found = strategy.predict(draw(seed, queries=queries)).probabilities
        torch.testing.assert_close(
            found.sum(1), torch.full((2, 3), queries / 3, dtype=torch.float64), atol=1e-4, rtol=0
        )


@pytest.mark.parametrize("strategy", ALL, ids=lambda s: type(s).__name__)
def test_a_rotation_after_the_transform_changes_nothing(strategy: Any) -> None:
    episodes = draw(9).transformed("PT")
    torch.testing.assert_close(
        strategy.predict(turned(episodes)).probabilities, strategy.predict(episodes).probabilities
    )


def test_with_no_step_pt_map_is_one_transport_to_the_support_means() -> None:
    episodes = draw(5)
    first = PTMAP(beta=2.5, iterations=0).predict(episodes).probabilities
    torch.testing.assert_close(PTMAP(beta=2.5, rate=0.0).predict(episodes).probabilities, first, atol=1e-5, rtol=0)


@pytest.mark.parametrize("strategy", ALL, ids=lambda s: type(s).__name__)
def test_negative_features_are_refused_and_other_transforms_take_them(strategy: Any) -> None:
    episodes = draw(2)
    moved = Episodes(episodes.support - 0.5, episodes.support_labels, episodes.query - 0.5, 3)
    with pytest.raises(InputError, match="non-negative"):
        strategy.predict(moved)
    other = type(strategy)(**{**vars(strategy), "transform": "L2N"})
    assert bool(other.predict(moved).probabilities.isfinite().all())
    assert "non-negative" in strategy.needs


def test_a_point_without_neighbours_that_look_alike_has_no_edge() -> None:
    """Centred points have negative cosines, of which the public code takes the cube and then the root of their sum."""
    support = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    query = torch.tensor([[[0.6, 0.5], [0.1, 0.9]]], dtype=torch.float64)
    found = ILPC(transform="L2N", steps=5).predict(Episodes(support, torch.tensor([[0, 1]]), query, 2))
    assert found.labels.tolist() == [[0, 1]]


def test_ilpc_asks_for_what_each_class_still_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[torch.Tensor, torch.Tensor]] = []

    def spy(scores: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, **others: Any) -> Any:
        asked.append((rows, columns))
        return sinkhorn(scores, rows, columns, **others)

    monkeypatch.setattr(fsl.strategies.ilpc, "sinkhorn", spy)
    found = ILPC(keep=1, steps=5).predict(draw(6, batch=1, queries=9))
    assert len(asked) == int(found.iterations) == 3
    for rows, columns in asked:
        torch.testing.assert_close(columns.sum(1), rows.sum(1))
