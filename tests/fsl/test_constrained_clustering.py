"""K-means, K-modes, SLK-Means, SLK-MS and SLK-BO against loops, the identities between them, and descent."""

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.episodes import Episodes
from fsl.strategies import slk
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.slk import SLKBO, SLKMS, KMeans, KModes, SLKMeans
from tests.oracles import constrained_clustering_loops as loops
from tests.oracles import fewshot_loops as oracle
from tests.oracles.small_tasks import draw, with_constants

KINDS = {SLKMeans: "means", SLKMS: "modes", SLKBO: "points", KMeans: "means", KModes: "modes"}
NOT_OF_THE_LOOPS = {"text_weight", "transform", "variant"}
PUBLISHED = {"clamp": "start", "first": "prototypes", "warm_start": False, "sigma_rule": "published"}


def by_loops(episodes: Episodes, strategy: Any, i: int, outer: int, sweeps: int) -> torch.Tensor:
    assert episodes.base_mean is not None
    support, query = (
        oracle.transform(x[i].numpy(), strategy.transform, episodes.base_mean.numpy())
        for x in (episodes.support, episodes.query)
    )
    options = {f.name: getattr(strategy, f.name) for f in dataclasses.fields(strategy)} | {"members": strategy.members}
    options = {name: value for name, value in options.items() if name not in NOT_OF_THE_LOOPS}
    options |= PUBLISHED if strategy.variant == "published" else {}
    labels = episodes.support_labels[i].tolist()
    found = loops.cluster(
        support, labels, query, episodes.way, kind=KINDS[type(strategy).__base__], outer=outer, sweeps=sweeps, **options
    )
    return torch.from_numpy(found)


def agrees(strategy: Any, episodes: Episodes, sweeps: int = 0) -> None:
    """Where the strategy stops early its prototypes stay, so that the loops' last steps change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(slk.SWEEPS, strategy.variant, (max(1, sweeps), 0.0))
        found = strategy.predict(episodes)
    for i in range(len(episodes.support)):
        try:
            expected = by_loops(episodes, strategy, i, int(found.iterations[i]), sweeps)
        except ValueError:  # a class lost its members, which the loops do not handle
            continue
        torch.testing.assert_close(found.probabilities[i], expected, atol=1e-4, rtol=0)


shared = {
    "transform": st.sampled_from(["UN", "L2N", "CL2N"]),
    "weight": st.floats(0.1, 1),
    "n_neighbors": st.integers(1, 4),
    "graph": st.sampled_from(["average", "union", "mutual", "directed"]),
    "shift": st.booleans(),
    "beta": st.sampled_from([0.5, 1.0, 3.0]),
    "variant": st.sampled_from(["corrected", "published"]),
    "max_iter": st.integers(1, 3),  # from the third step on, a task may stop
}
members = st.sampled_from(["hard", "soft"])
numbers = st.sampled_from([1, 40])  # of one sweep it shows where it started
plain = [name for name in shared if name not in ("weight", "n_neighbors", "graph")]


def unrejected(options: dict[str, Any]) -> dict[str, Any]:
    """The options; with a symmetric graph, with so small a weight that the guard rejects no sweep."""
    scale = 1 if options["graph"] == "directed" else 8 * options["n_neighbors"]
    return {**options, "weight": options["weight"] / scale}


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100_000), options=st.fixed_dictionaries({**shared, "members": members}), sweeps=numbers)
def test_slk_means_agrees_with_loops(seed: int, options: dict[str, Any], sweeps: int) -> None:
    agrees(with_constants(SLKMeans, **unrejected(options)), draw(seed), sweeps)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 100_000), options=st.fixed_dictionaries({**shared, "members": members}), sweeps=numbers)
def test_slk_ms_agrees_with_loops(seed: int, options: dict[str, Any], sweeps: int) -> None:
    # Of three shots: the mean of a class of two points is a saddle of its density, which rounding leaves either way.
    agrees(with_constants(SLKMS, **unrejected(options)), draw(seed, shot=3), sweeps)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100_000), options=st.fixed_dictionaries(shared), sweeps=numbers)
def test_slk_bo_agrees_with_loops(seed: int, options: dict[str, Any], sweeps: int) -> None:
    agrees(with_constants(SLKBO, **unrejected(options)), draw(seed), sweeps)


@settings(deadline=None, max_examples=5)
@given(
    seed=st.integers(0, 100_000),
    options=st.fixed_dictionaries({**{name: shared[name] for name in plain}, "members": members}),
)
def test_kmeans_and_kmodes_agree_with_loops(seed: int, options: dict[str, Any]) -> None:
    agrees(with_constants(KMeans, **options), draw(seed))
    agrees(with_constants(KModes, **options), draw(seed, shot=3))


def test_by_product_modes_move_though_the_support_is_clamped() -> None:
    """fewshot.md 4.5: clamped rows would win every argmax, and the answer would be that of the first step."""
    episodes = draw(3, queries=30)
    first = with_constants(SLKBO, max_iter=1, beta=5.0).predict(episodes).probabilities
    assert not torch.equal(first, SLKBO(beta=5.0).predict(episodes).probabilities)


def test_a_class_that_loses_its_members_takes_the_step_back() -> None:
    """Public code: where the support is not clamped, previous labels are restored when a class vanishes."""
    support = torch.tensor([[[0.0, 0.0], [0.2, 0.0], [5.0, 5.0]]])
    query = torch.tensor([[[0.1, 0.0], [0.1, 0.1], [5.0, 5.1], [0.05, 0.0]]])
    episodes = Episodes(support, torch.tensor([[0, 1, 2]]), query, 3)
    strategy = SLKMeans.as_published(transform="UN", shift=False, weight=50.0, n_neighbors=4)
    found = strategy.predict(episodes)
    assert bool(found.probabilities.isfinite().all())
    assert int(found.iterations) == 1
    expected = SimpleShot(transform="UN").predict(episodes)
    assert torch.equal(found.labels, expected.labels)
