"""LaplacianShot, SLK, K-means, K-modes and mixtures: loops, identities, descent, and what is seen on real features."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fsl.episodes import Episodes, Strategy
from fsl.extra import soft_slk
from fsl.extra.soft_slk import SoftSLK
from fsl.extra.text_mixture import TextMixture
from fsl.features.gathering import gathered
from fsl.samplers.drawn import Balanced, Dirichlet
from fsl.strategies import slk
from fsl.strategies.bavardage import BAVARDAGE
from fsl.strategies.em_dirichlet import EMDirichlet
from fsl.strategies.laplacianshot import STEPS, LaplacianShot
from fsl.strategies.lp_plus_plus import LPPlusPlus
from fsl.strategies.paddle import PADDLE
from fsl.strategies.pt_map import PTMAP
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.slk import SLKBO, SLKMS, KMeans, KModes, SLKMeans
from fsl.strategies.stata import StatA
from fsl.strategies.transclip import TransCLIP
from fsl.transforms import transform_features
from tests.fsl.test_class_names import draw as draw_named
from tests.oracles import constrained_clustering_loops as loops
from tests.oracles import fewshot_loops as oracle
from tests.oracles import mixture_loops, soft_slk_loops
from tests.oracles.small_tasks import as_arrays, draw, with_constants
from tests.oracles.sweeps import largest_rise


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
    del options["transform"]
    loops = [
        oracle.laplacianshot(*task, 3, iterations=7, **options) for task in as_arrays(episodes, strategy.transform)
    ]
    expected = torch.from_numpy(np.stack(loops))
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


KINDS = {SLKMeans: "means", SLKMS: "modes", SLKBO: "points", KMeans: "means", KModes: "modes"}
NOT_OF_THE_LOOPS = {"text_weight", "transform", "variant"}
PUBLISHED = {"clamp": "start", "first": "prototypes", "warm_start": False, "sigma_rule": "published"}


def agrees(strategy: Any, episodes: Episodes, sweeps: int = 0) -> None:
    """Where the strategy stops early its prototypes stay, so that the loops' last steps change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(slk.SWEEPS, strategy.variant, (max(1, sweeps), 0.0))
        found = strategy.predict(episodes)
    options = {f.name: getattr(strategy, f.name) for f in dataclasses.fields(strategy)} | {"members": strategy.members}
    options = {name: value for name, value in options.items() if name not in NOT_OF_THE_LOOPS}
    options |= PUBLISHED if strategy.variant == "published" else {}
    options |= {"kind": KINDS[type(strategy).__base__], "sweeps": sweeps}
    for i, task in enumerate(as_arrays(episodes, strategy.transform)):
        try:
            expected = loops.cluster(*task, episodes.way, outer=int(found.iterations[i]), **options)
        except ValueError:  # a class lost its members, which the loops do not handle
            continue
        torch.testing.assert_close(found.probabilities[i], torch.from_numpy(expected), atol=1e-4, rtol=0)


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

OF_A_GRAPH = ("weight", "n_neighbors", "graph")


# Modes of three shots: the mean of a class of two points is a saddle of its density, which rounding leaves either way.
@pytest.mark.parametrize(("kind", "shot"), [(SLKMeans, 2), (SLKMS, 3), (SLKBO, 2), (KMeans, 2), (KModes, 3)])
@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 100_000),
    options=st.fixed_dictionaries(shared),
    members=st.sampled_from(["hard", "soft"]),
    sweeps=st.sampled_from([1, 40]),  # of one sweep it shows where it started
)
def test_clusterers_agree_with_loops(
    kind: Any, shot: int, seed: int, options: dict[str, Any], members: str, sweeps: int
) -> None:
    """With a symmetric graph, the weight is so small that the guard rejects no sweep."""
    if kind in (KMeans, KModes):
        options, sweeps = {name: value for name, value in options.items() if name not in OF_A_GRAPH}, 0
    elif options["graph"] != "directed":
        options["weight"] /= 8 * options["n_neighbors"]
    if kind is not SLKBO:
        options["members"] = members
    agrees(with_constants(kind, **options), draw(seed, shot=shot), sweeps)


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


betas, weights = st.sampled_from([1.0, 10.0, 65.0]), st.just(0.0) | st.floats(1e-9, 20)
graphs = st.sampled_from(["average", "union", "mutual"])
soft = {"members": st.just("soft"), "beta": betas, "weight": weights, "graph": graphs}
FIELDS: Mapping[Any, dict[str, Any]] = {
    LaplacianShot: {"weight": weights, "rectify": st.booleans(), "graph": graphs},
    SLKMeans: soft,
    SLKMS: soft,
    SoftSLK: {"beta": betas, "weight": weights, "support_weight": st.sampled_from([0.3, 3.0])},
    PADDLE: {"weight": weights, "variant": st.sampled_from(["corrected", "published"])},
    BAVARDAGE: {
        "beta": betas,
        "prior": st.sampled_from([0.1, 10.0]),
        "concentration": st.sampled_from([0.1, 2.0]),
        "rounds": st.just(30),
    },
}
names = st.sampled_from([0.1, 1.0, 5.0, 20.0])
OF_NAMES: Mapping[Any, dict[str, Any]] = {
    TransCLIP: {"text_weight": names},
    StatA: {"text_weight": names, "alpha": names},
    TextMixture: {"text_weight": names, "weight": names},
    EMDirichlet: {"weight": names},
    LaplacianShot: {"text_weight": names, "weight": names, "variant": st.just("lata"), "graph": graphs},
    LPPlusPlus: {"max_iter": st.just(30)},
}


@pytest.mark.parametrize("kind", FIELDS)
@settings(deadline=None, max_examples=10)
@given(data=st.data(), seed=st.integers(0, 100_000), single=st.booleans())
def test_the_objective_never_rises(kind: Any, data: st.DataObject, seed: int, single: bool) -> None:
    strategy = with_constants(kind, **{name: data.draw(values) for name, values in FIELDS[kind].items()})
    episodes = draw(seed, batch=4, way=5, queries=25)
    if single:
        support, query, mean = episodes.support.float(), episodes.query.float(), torch.full((6,), 0.1)
        episodes = Episodes(support, episodes.support_labels, query, 5, base_mean=mean)
    assert largest_rise(strategy.predict(episodes).trace) <= (1e-5 if single else 1e-9)


@pytest.mark.parametrize("kind", OF_NAMES)
@settings(deadline=None, max_examples=10)
@given(data=st.data(), seed=st.integers(0, 10_000), shot=st.integers(0, 2), size=st.integers(1, 20))
def test_it_never_rises_with_class_names(kind: Any, data: st.DataObject, seed: int, shot: int, size: int) -> None:
    fields = {name: data.draw(values) for name, values in OF_NAMES[kind].items()}
    shot = max(shot, int(kind is LPPlusPlus))  # it is zero-shot without labels, and has no trace
    trace = (
        with_constants(kind, **fields, **({"transform": "L2N"} if kind is LaplacianShot else {}))
        .predict(draw_named(seed, data.draw(st.integers(1, 6)), shot, size))
        .trace
    )
    assert largest_rise(trace) <= 1e-9


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["UN", "L2N", "CL2N"]),
    way=st.integers(2, 4),
    shot=st.integers(1, 3),
    beta=st.sampled_from([1.0, 4.0, 10.0]),
    prior=st.sampled_from([0.1, 1.0, 10.0]),
    concentration=st.sampled_from([0.5, 2.0, 30.0]),
    rounds=st.integers(1, 4),
)
def test_it_agrees_with_loops(seed: int, transform: str, way: int, shot: int, **options: float) -> None:
    """Which project on the differences of the means: that changes no probability."""
    episodes = draw(seed, way=way, shot=shot)
    found = with_constants(BAVARDAGE, transform=transform, **options).predict(episodes)
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = mixture_loops.bavardage(*task, way, start_beta=options["beta"], start_rounds=5, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=1e-7, rtol=0)


@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 100_000),
    transform=st.sampled_from(["L2N", "CL2N"]),
    way=st.integers(2, 4),
    shot=st.integers(1, 3),
    beta=st.sampled_from([1.0, 4.0]),
    support_weight=st.sampled_from([1.0, 3.0]),
    weight=st.sampled_from([0.0, 0.2]),
    n_neighbors=st.integers(1, 3),
    shrinkage=st.sampled_from([0.5, 3.0]),
)
def test_it_agrees_as_soft_slk(seed: int, transform: str, way: int, shot: int, **options: float) -> None:
    episodes = draw(seed, way=way, shot=shot)
    strategy = with_constants(SoftSLK, transform=transform, **options)
    with mock.patch.multiple(soft_slk, MAX_ITERATIONS=400, TOLERANCE=1e-14):
        found = strategy.predict(episodes)
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = soft_slk_loops.soft_slk(*task, way, steps=60, rounds=soft_slk.ROUNDS, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(rows, torch.from_numpy(expected), atol=2e-3, rtol=0)


Bank = tuple[Tensor, Tensor, Tensor]


@pytest.fixture(scope="module")
def bank(reference_data: Path) -> Bank:
    """(12000, 64) features, their labels, and the mean of the base classes."""
    with np.load(reference_data / "features" / "mini_conv4_svd64.npz") as arrays:
        features = torch.from_numpy(arrays["q_novel"] * arrays["scale"]).float()
        labels = torch.from_numpy(arrays["label_novel"].astype(np.int64))
        return features, labels, torch.from_numpy(arrays["base_mean"])


def accuracies(bank: Bank, strategy: Strategy, sampler: Balanced | Dirichlet, tasks: int = 600) -> Tensor:
    """(tasks,) share of the queries that got their class."""
    features, labels, mean = bank
    drawn = sampler.tasks(labels).first(tasks)
    transformed = transform_features(features, strategy.transform, mean)
    found = strategy.predict(gathered(transformed, drawn, strategy.transform, mean))
    return (found.labels == drawn.query_labels).double().mean(1)


def above(first: Tensor, second: Tensor) -> bool:
    """The mean difference of paired tasks is above 0, 95 % interval."""
    difference = first - second
    return bool(difference.mean() > 1.96 * difference.std() / len(difference) ** 0.5)


def test_rectification_and_the_laplacian_help(bank: Bank) -> None:
    """Thesis table 4.4, 1-shot: each alone, and both together more than each."""
    plain, graph, rectified, both = (
        accuracies(bank, LaplacianShot(weight=weight, rectify=rectify, shift=rectify), Balanced(shot=1))
        for rectify in (False, True)
        for weight in (0.0, 0.7)
    )
    torch.testing.assert_close(plain, accuracies(bank, SimpleShot(), Balanced(shot=1)), atol=0.02, rtol=0)
    assert above(graph, plain)
    assert above(rectified, graph)
    assert above(both, rectified)


@pytest.mark.slow
def test_transport_to_balanced_classes_is_best_where_they_are_and_worst_where_not(bank: Bank) -> None:
    """PT-MAP against LaplacianShot; the features may be negative, so that they get unit length instead of a power."""
    transport, graph = PTMAP(transform="L2N"), LaplacianShot()
    for sampler, better, worse in ((Balanced(shot=1), transport, graph), (Dirichlet(shot=1), graph, transport)):
        assert above(accuracies(bank, better, sampler), accuracies(bank, worse, sampler))


@pytest.mark.slow
@pytest.mark.parametrize("shot", [1, 5])
def test_a_mixture_that_learns_the_proportions_leads_where_they_differ(bank: Bank, shot: int) -> None:
    """BAVARDAGE on queries of Dirichlet proportions, of one shot and of five."""
    sampler = Dirichlet(shot=shot)
    mixture = accuracies(bank, BAVARDAGE(), sampler)
    for other in (SimpleShot(), KMeans(), LaplacianShot(), PTMAP(transform="L2N")):
        assert above(mixture, accuracies(bank, other, sampler)), other
