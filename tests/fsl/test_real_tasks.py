"""Strategies on real features, a Conv-4's of mini-ImageNet's novel classes in the reference data: every sweep descends,
and what the papers claim is seen. Skipped where TRANSDUCE_DATA names no folder with the data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fsl.episodes import Strategy
from fsl.features.gathering import GatheredEpisodes
from fsl.samplers.balanced import Balanced
from fsl.samplers.dirichlet import Dirichlet
from fsl.strategies.bavardage import BAVARDAGE
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.paddle import PADDLE, SoftKMeans
from fsl.strategies.pt_map import PTMAP
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.slk import SLKBO, SLKMS, KMeans, SLKMeans
from fsl.transforms import transform_features
from tests.oracles.sweeps import largest_rise, recorded_sweeps

Bank = tuple[Tensor, Tensor, Tensor]
ROUNDING = 1e-5  # of float32 sums, as a share of the objective


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
    found = strategy.predict(GatheredEpisodes(transformed, drawn, strategy.transform, mean))
    return (found.labels == drawn.query_labels).double().mean(1)


def above(first: Tensor, second: Tensor) -> bool:
    """The mean difference of paired tasks is above 0, 95 % interval."""
    difference = first - second
    return bool(difference.mean() > 1.96 * difference.std() / len(difference) ** 0.5)


@pytest.mark.parametrize("kind", [SLKMeans, SLKMS, SLKBO])
@pytest.mark.parametrize("sampler", [Balanced(shot=1), Dirichlet(shot=5)], ids=["balanced", "dirichlet"])
@pytest.mark.parametrize("options", [{}, {"weight": 20.0}, {"weight": 1.0, "clamp": "start"}], ids=str)
def test_no_sweep_raises_the_objective(
    bank: Bank, kind: Any, sampler: Balanced | Dirichlet, options: dict[str, Any]
) -> None:
    with recorded_sweeps() as traces:
        accuracies(bank, kind(**options), sampler, tasks=40)
    assert sum(len(trace) - 1 for trace in traces) > 10
    assert max(map(largest_rise, traces)) <= ROUNDING


@pytest.mark.parametrize(
    "strategy", [LaplacianShot(), LaplacianShot(weight=20.0), PADDLE(), SoftKMeans()], ids=lambda s: str(s)[:30]
)
def test_no_step_raises_the_objective(bank: Bank, strategy: Strategy) -> None:
    features, labels, mean = bank
    for sampler in (Balanced(shot=1), Dirichlet(shot=5)):
        drawn = sampler.tasks(labels).first(40)
        transformed = transform_features(features, strategy.transform, mean)
        found = strategy.predict(GatheredEpisodes(transformed, drawn, strategy.transform, mean))
        assert found.trace is not None
        assert len(found.trace) > 3
        assert largest_rise(found.trace) <= ROUNDING


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


def test_clustering_gains_more_from_one_shot_than_from_five(bank: Bank) -> None:
    gains = [
        accuracies(bank, KMeans(), Balanced(shot=shot)) - accuracies(bank, SimpleShot(), Balanced(shot=shot))
        for shot in (1, 5)
    ]
    assert above(gains[1], torch.zeros(600))
    assert above(gains[0], gains[1])


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
