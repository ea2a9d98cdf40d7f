"""Strategies on real features, a Conv-4's of mini-ImageNet's novel classes in the reference data: every sweep descends,
and what the papers claim is seen. Skipped where TRANSDUCE_DATA names no folder with the data."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fsl.episodes import Strategy
from fsl.features.gathering import gathered
from fsl.samplers.drawn import Balanced, Dirichlet
from fsl.strategies.bavardage import BAVARDAGE
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.pt_map import PTMAP
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.slk import KMeans
from fsl.transforms import transform_features

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
