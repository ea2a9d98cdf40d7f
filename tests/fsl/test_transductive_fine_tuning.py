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
from fsl.benchmarks.augmentation import Augmentation
from fsl.episodes import Episodes
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank, extract
from fsl.features.pictures import Pictures, TaskPictures
from fsl.samplers.balanced import Balanced
from fsl.strategies import transductive_fine_tuning
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.tim_gd import EntropyMin
from fsl.strategies.transductive_fine_tuning import TransductiveFineTuning
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
    change = Augmentation(rotation=10, translation=0.1, brightness=0.2)
    return Pictures(images, small_network(seed), MEAN, STD, SIDE, change)


def small_bank(pictures: Pictures) -> FeatureBank:
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    with torch.inference_mode():
        features = pictures.network(pictures.normalised(pictures.images)).float()
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


def rearranged(episodes: Episodes, support: torch.Tensor, query: torch.Tensor) -> Episodes:
    """The same tasks with their examples and queries in another order."""
    assert episodes.pictures is not None
    first = episodes.support_size
    rows = episodes.pictures.rows
    rows = torch.cat([rows[:, :first][:, support], rows[:, first:][:, query]], dim=1)
    return dataclasses.replace(
        episodes,
        support=episodes.support[:, support],
        support_labels=episodes.support_labels[:, support],
        query=episodes.query[:, query],
        pictures=TaskPictures(episodes.pictures.pictures, rows),
    )


@settings(deadline=None, max_examples=5)
@given(
    seed=st.integers(0, 10_000),
    weight=st.just(0.0) | st.floats(1e-9, 2),
    learning_rate=st.floats(1e-4, 5e-3),
    batch_norm=st.sampled_from(["base", "task"]),
)
def test_it_agrees_with_a_plain_loop(seed: int, weight: float, learning_rate: float, batch_norm: str) -> None:
    episodes = small_episodes(seed)
    options = {"weight": weight, "learning_rate": learning_rate, "iterations": 6}
    found = TransductiveFineTuning(batch_norm=batch_norm, **options).predict(episodes)  # type: ignore[arg-type]
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
            of_task=batch_norm == "task",
            **options,  # type: ignore[arg-type]
        )
        assert found.trace[:, i].tolist() == pytest.approx(losses, rel=1e-3)
        torch.testing.assert_close(found.probabilities[i], expected, atol=2e-3, rtol=0)
    assert found.iterations.tolist() == [6, 6, 6]


@pytest.mark.parametrize("options", [{}, {"batch_norm": "task"}, {"augment": True}, {"transform": "CL2N"}])
def test_a_task_alone_is_as_in_a_batch(options: dict[str, object]) -> None:
    episodes, strategy = small_episodes(1), TransductiveFineTuning(iterations=4, learning_rate=1e-3, **options)  # type: ignore[arg-type]
    whole = strategy.predict(episodes)
    assert episodes.pictures is not None
    for i in range(3):
        alone = dataclasses.replace(
            episodes,
            support=episodes.support[i : i + 1],
            support_labels=episodes.support_labels[i : i + 1],
            query=episodes.query[i : i + 1],
            pictures=TaskPictures(episodes.pictures.pictures, episodes.pictures.rows[i : i + 1]),
        )
        assert torch.equal(strategy.predict(alone).probabilities[0], whole.probabilities[i])


@pytest.mark.parametrize("options", [{}, {"batch_norm": "task"}, {"augment": True}])
def test_another_order_of_examples_and_queries_changes_nothing(options: dict[str, object]) -> None:
    episodes, strategy = small_episodes(2), TransductiveFineTuning(iterations=4, learning_rate=1e-3, **options)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(3)
    support, query = (torch.randperm(n, generator=generator) for n in (episodes.support_size, episodes.query_size))
    found = strategy.predict(rearranged(episodes, support, query)).probabilities
    torch.testing.assert_close(found, strategy.predict(episodes).probabilities[:, query], atol=1e-3, rtol=0)


def test_other_names_of_the_classes_change_nothing() -> None:
    episodes, strategy = small_episodes(4), TransductiveFineTuning(iterations=4, augment=True)
    names = torch.tensor([2, 0, 1])
    renamed = dataclasses.replace(episodes, support_labels=names[episodes.support_labels])
    found = strategy.predict(renamed).probabilities[:, :, names]
    torch.testing.assert_close(found, strategy.predict(episodes).probabilities, atol=1e-3, rtol=0)


@pytest.mark.parametrize("options", [{}, {"batch_norm": "task"}, {"augment": True}])
def test_padding_changes_nothing(options: dict[str, object]) -> None:
    episodes, strategy = small_episodes(5), TransductiveFineTuning(iterations=4, learning_rate=1e-3, **options)  # type: ignore[arg-type]
    support, query = torch.arange(episodes.support_size), torch.arange(episodes.query_size)
    padded = rearranged(episodes, torch.cat([support, support[:2]]), torch.cat([query, query[:3]]))
    masked = dataclasses.replace(
        padded,
        support_mask=torch.arange(len(support) + 2).expand(3, -1) < len(support),
        query_mask=torch.arange(len(query) + 3).expand(3, -1) < len(query),
    )
    found = strategy.predict(masked).probabilities
    torch.testing.assert_close(found[:, : len(query)], strategy.predict(episodes).probabilities, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.sum(2), torch.ones(3, len(query) + 3))


def test_images_a_few_at_a_time_give_the_same_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes, strategy = small_episodes(6), TransductiveFineTuning(iterations=4, learning_rate=1e-3)
    whole = strategy.predict(episodes)
    monkeypatch.setattr(transductive_fine_tuning, "_AT_ONCE", {"cpu": 1})
    one_by_one = strategy.predict(episodes)
    torch.testing.assert_close(one_by_one.probabilities, whole.probabilities, atol=1e-3, rtol=0)
    torch.testing.assert_close(one_by_one.trace, whole.trace, atol=1e-3, rtol=0)


def test_without_steps_it_is_simpleshot_on_features_after_a_relu() -> None:
    episodes = small_episodes(7)
    found = TransductiveFineTuning(iterations=0).predict(episodes)
    features = dataclasses.replace(episodes, support=episodes.support.relu(), query=episodes.query.relu())
    expected = SimpleShot(transform="L2N", metric="cosine").predict(features)
    assert float((found.labels == expected.labels).float().mean()) > 0.95  # but for near ties
    assert found.trace is not None
    assert found.trace.shape == (0, 3)


def test_the_entropy_of_the_queries_falls_with_its_weight() -> None:
    episodes = small_episodes(8)

    def entropies(weight: float) -> torch.Tensor:
        p = TransductiveFineTuning(weight=weight, learning_rate=3e-3).predict(episodes).probabilities
        return -torch.xlogy(p, p).sum(-1).mean(-1)

    assert bool((entropies(5.0) < entropies(0.0)).all())


@pytest.mark.parametrize("batch_norm", ["base", "task"])
def test_the_network_is_left_as_it_was_also_where_gradients_are_switched_off(batch_norm: str) -> None:
    episodes = small_episodes(9)
    assert episodes.pictures is not None
    network = episodes.pictures.pictures.network
    before = copy.deepcopy(network.state_dict())
    with torch.no_grad():
        found = TransductiveFineTuning(batch_norm=batch_norm).predict(episodes)  # type: ignore[arg-type]
    assert found.trace is not None
    assert bool((found.trace[0] > found.trace[-1]).all())
    assert not network.training
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("batch_norm", ["base", "task"])
@pytest.mark.parametrize("augment", [False, True])
def test_the_smallest_task_has_finite_probabilities(batch_norm: str, augment: bool) -> None:
    episodes, labels = small_episodes(10), torch.zeros(3, 1, dtype=torch.int64)
    assert episodes.pictures is not None
    shown = TaskPictures(episodes.pictures.pictures, episodes.pictures.rows[:, :2])
    episodes = Episodes(episodes.support[:, :1], labels, episodes.query[:, :1], 1, pictures=shown)
    strategy = TransductiveFineTuning(batch_norm=batch_norm, augment=augment, learning_rate=0.1)  # type: ignore[arg-type]
    assert strategy.predict(episodes).probabilities.tolist() == [[[1.0]]] * 3


def test_images_that_are_all_black_have_finite_probabilities() -> None:
    episodes = small_episodes(11)
    assert episodes.pictures is not None
    pictures = dataclasses.replace(
        episodes.pictures.pictures, images=torch.zeros_like(episodes.pictures.pictures.images)
    )
    black = dataclasses.replace(episodes, pictures=TaskPictures(pictures, episodes.pictures.rows))
    for batch_norm in ("base", "task"):
        found = TransductiveFineTuning(batch_norm=batch_norm, learning_rate=0.01).predict(black)  # type: ignore[arg-type]
        assert bool(found.probabilities.isfinite().all())


def test_changed_images_follow_from_the_seed() -> None:
    episodes = small_episodes(12)
    first, again, other = (
        TransductiveFineTuning(augment=True, seed=seed, learning_rate=1e-3).predict(episodes).trace
        for seed in (0, 0, 1)
    )
    assert first is not None
    assert torch.equal(first, again)  # type: ignore[arg-type]
    assert not torch.equal(first, other)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [None, 1, 4])
def test_evaluation_gives_it_the_images_of_the_tasks(batch: int | None) -> None:
    """The accuracies are those of its predictions, in any batch, beside those of strategies on features."""
    pictures = small_pictures(13)
    bank = small_bank(pictures)
    sampler = Balanced(way=3, shot=1, query=5).tasks(bank.labels, 2)
    tuning = TransductiveFineTuning(iterations=3, learning_rate=1e-3)
    found = evaluate({"tuned": tuning, "head": EntropyMin()}, bank, sampler, 6, batch=batch, pictures=pictures)
    tasks = sampler.first(6)
    rows = torch.cat([tasks.support, tasks.query], dim=1)
    labels = (
        TransductiveFineTuning(iterations=3, learning_rate=1e-3)
        .predict(
            Episodes(
                bank.features[tasks.support],
                tasks.support_labels,
                bank.features[tasks.query],
                3,
                pictures=TaskPictures(pictures, rows),
            )
        )
        .labels
    )
    expected = (labels == tasks.query_labels).double().mean(1)
    np.testing.assert_allclose(found["tuned"].accuracies, expected.numpy(), rtol=1e-7, atol=1e-7)
    assert all(result.seconds_per_task > 0 for result in found.values())


def test_images_of_another_size_and_colour_are_made_like_those_of_the_network() -> None:
    pictures = small_pictures(14)
    large = dataclasses.replace(
        pictures, images=pictures.images.expand(-1, 3, -1, -1).repeat_interleave(2, 2).repeat_interleave(2, 3)
    )
    rows = torch.arange(4)
    assert large.conformed(rows, torch.device("cpu")).shape == (4, 1, SIDE, SIDE)


def test_it_sees_what_features_are_extracted_from() -> None:
    from fsl.benchmarks.images import ImageSet

    pictures = small_pictures(15)
    bank = small_bank(pictures)
    images = ImageSet(pictures.images, bank.labels, bank.class_names, "")
    found = extract(copy.deepcopy(pictures.network), images, mean=MEAN, std=STD, device="cpu")
    torch.testing.assert_close(found, bank.features, atol=1e-4, rtol=1e-4)


def test_training_changes_whole_images_and_predictions_are_of_what_is_shown() -> None:
    pictures = dataclasses.replace(small_pictures(18), crop_pct=0.5, interpolation="bicubic")
    rows, place = torch.arange(5), torch.device("cpu")
    torch.testing.assert_close(pictures.conformed(rows, place), pictures.images[rows])
    larger = torch.nn.functional.interpolate(
        pictures.images[rows].float(), (2 * SIDE, 2 * SIDE), mode="bicubic", antialias=True
    )
    middle = larger[:, :, SIDE // 2 : -SIDE // 2, SIDE // 2 : -SIDE // 2].clamp(0, 255)
    expected = (middle / 255 - MEAN[0]) / STD[0]
    torch.testing.assert_close(pictures.shown(rows, place), expected, atol=1e-4, rtol=1e-4)


def test_features_alone_are_an_error_that_names_what_is_missing() -> None:
    pictures = small_pictures(16)
    bank = small_bank(pictures)
    tasks = Balanced(way=3, query=3).tasks(bank.labels)
    with pytest.raises(InputError, match=r"strategy tuned: .*images.*entropy_min"):
        evaluate({"tuned": TransductiveFineTuning()}, bank, tasks, 2)
    few = dataclasses.replace(pictures, images=pictures.images[:7])
    with pytest.raises(InputError, match=r"7 images .*60 features"):
        evaluate({"tuned": TransductiveFineTuning()}, bank, tasks, 2, pictures=few)


def test_rows_that_do_not_fit_the_task_are_an_error() -> None:
    episodes = small_episodes(17)
    assert episodes.pictures is not None
    with pytest.raises(InputError, match=r"pictures .*rows"):
        dataclasses.replace(episodes, pictures=TaskPictures(episodes.pictures.pictures, episodes.pictures.rows[:, :4]))


def test_images_must_be_images() -> None:
    with pytest.raises(InputError, match="uint8"):
        dataclasses.replace(small_pictures(), images=torch.rand(4, 1, 8, 8))


def test_statistics_of_a_task_that_is_too_large_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from clustering.foundation import memory

    episodes = small_episodes(18)
    monkeypatch.setattr(memory, "_UNNOTICED", 0)
    monkeypatch.setattr(memory, "free", lambda: 1000)
    TransductiveFineTuning(iterations=1).predict(episodes)
    with pytest.raises(InputError, match=r"batch_norm=task.*18 images.*batch_norm=base"):
        TransductiveFineTuning(iterations=1, batch_norm="task").predict(episodes)


@pytest.mark.parametrize(
    ("field", "value"), [("learning_rate", 0.0), ("weight", -1.0), ("iterations", -1), ("batch_norm", "batch")]
)
def test_wrong_values_name_the_field(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        TransductiveFineTuning(**{field: value})  # type: ignore[arg-type]
