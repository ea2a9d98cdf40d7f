"""Transductive fine-tuning against a plain loop, and what holds of every strategy, on images."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.features.pictures import Pictures, TaskPictures
from fsl.samplers.drawn import Balanced
from fsl.strategies.tim_gd import EntropyMin
from fsl.strategies.transductive_fine_tuning import TransductiveFineTuning
from fsl.weights.pretrained import Look
from tests.oracles.fine_tuning_loop import fine_tuned

CLASSES, EACH, SIDE = 5, 12, 8
MEAN, STD = (0.4,), (0.3,)


def small_network(seed: int = 0) -> nn.Module:
    """Convolution, batch normalisation that has seen something, and a map of one pixel at the end."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Conv2d(1, 6, 3, stride=2, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(6, 10, 1),
            nn.BatchNorm2d(10),
            nn.Flatten(),
        )
        network.train()(torch.randn(64, 1, SIDE, SIDE))
    return network.eval()


def small_pictures(seed: int = 0) -> Pictures:
    """Noise around one picture for each class, the classes one after the other."""
    generator = torch.Generator().manual_seed(seed)
    centres = 255 * torch.rand(CLASSES, 1, 1, SIDE, SIDE, generator=generator)
    noise = 60 * torch.randn(CLASSES, EACH, 1, SIDE, SIDE, generator=generator)
    images = (centres + noise).clamp(0, 255).to(torch.uint8).flatten(0, 1)
    return Pictures(images, small_network(seed), Look(1, SIDE, MEAN, STD))


def small_bank(pictures: Pictures) -> FeatureBank:
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    with torch.inference_mode():
        features = pictures.network(pictures.shown(torch.arange(len(labels)), labels.device)).float()
    features = features.clone()
    return FeatureBank(features, labels, tuple(f"class {i}" for i in range(CLASSES)), features.mean(0))


def small_episodes(seed: int, batch: int = 3, way: int = 3, shot: int = 2, query: int = 4) -> Episodes:
    pictures = small_pictures(seed)
    bank = small_bank(pictures)
    tasks = Balanced(way=way, shot=shot, query=query).tasks(bank.labels, seed).first(batch)
    rows = torch.cat([tasks.support, tasks.query], dim=1)
    features = bank.features[rows]
    first = tasks.support.shape[1]
    return Episodes(
        features[:, :first],
        tasks.support_labels,
        features[:, first:],
        way,
        base_mean=bank.base_mean,
        pictures=TaskPictures(pictures, rows),
    )


@settings(deadline=None, max_examples=5)
@given(
    seed=st.integers(0, 10_000),
    learning_rate=st.floats(1e-4, 5e-3),
)
def test_it_agrees_with_a_plain_loop(seed: int, learning_rate: float) -> None:
    episodes = small_episodes(seed)
    found = TransductiveFineTuning(learning_rate=learning_rate, max_iter=6).predict(episodes)
    assert episodes.pictures is not None
    assert found.trace is not None
    pictures = episodes.pictures.pictures
    for i, rows in enumerate(episodes.pictures.rows):
        pixels = ((pictures.images[rows].float() / 255) - MEAN[0]) / STD[0]
        expected, losses = fine_tuned(
            pictures.network,
            pixels[: episodes.support_size],
            episodes.support_labels[i],
            pixels[episodes.support_size :],
            episodes.way,
            weight=1.0,
            learning_rate=learning_rate,
            iterations=6,
        )
        assert found.trace[:, i].tolist() == pytest.approx(losses, rel=1e-3)
        torch.testing.assert_close(found.probabilities[i], expected, atol=2e-3, rtol=0)
    assert found.iterations.tolist() == [6, 6, 6]


def test_the_network_is_left_as_it_was_also_where_gradients_are_switched_off() -> None:
    episodes = small_episodes(9)
    assert episodes.pictures is not None
    network = episodes.pictures.pictures.network
    before = copy.deepcopy(network.state_dict())
    with torch.no_grad():
        found = TransductiveFineTuning().predict(episodes)
    assert found.trace is not None
    assert bool((found.trace[0] > found.trace[-1]).all())
    assert not network.training
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("batch", [None, 1, 4])
def test_evaluation_gives_it_the_images_of_the_tasks(batch: int | None) -> None:
    """The accuracies are those of its predictions, in any batch, beside those of strategies on features."""
    pictures = small_pictures(13)
    bank = small_bank(pictures)
    sampler = Balanced(way=3, shot=1, query=5).tasks(bank.labels, 2)
    tuning = TransductiveFineTuning(max_iter=3, learning_rate=1e-3)
    found = evaluate({"tuned": tuning, "head": EntropyMin()}, bank, sampler, 6, batch=batch, pictures=pictures)
    tasks = sampler.first(6)
    rows = torch.cat([tasks.support, tasks.query], dim=1)
    support, query = bank.features[tasks.support], bank.features[tasks.query]
    shown = TaskPictures(pictures, rows)
    labels = tuning.predict(Episodes(support, tasks.support_labels, query, 3, pictures=shown)).labels
    expected = (labels == tasks.query_labels).double().mean(1)
    np.testing.assert_allclose(found["tuned"].accuracies, expected.numpy(), rtol=1e-7, atol=1e-7)
    assert all(result.seconds_per_task > 0 for result in found.values())


def test_features_alone_are_an_error_that_names_what_is_missing() -> None:
    pictures = small_pictures(16)
    bank = small_bank(pictures)
    tasks = Balanced(way=3, query=3).tasks(bank.labels)
    with pytest.raises(InputError, match=r"strategy tuned: .*images.*entropy_min"):
        evaluate({"tuned": TransductiveFineTuning()}, bank, tasks, 2)
    few = dataclasses.replace(pictures, images=pictures.images[:7])
    with pytest.raises(InputError, match=r"7 images .*60 features"):
        evaluate({"tuned": TransductiveFineTuning()}, bank, tasks, 2, pictures=few)
