"""Task sampling: what a task is, and that task i is always the same task."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.errors import InputError
from fsl.samplers.balanced import Balanced
from fsl.tasks import BLOCK, Tasks, concatenate


def labels_of(sizes: list[int], seed: int = 0) -> torch.Tensor:
    """Labels with these class sizes, in random order."""
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]


@settings(deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.integers(7, 20), min_size=3, max_size=9),
    way=st.integers(2, 3),
    shot=st.integers(1, 3),
    query=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_what_a_task_is(sizes: list[int], way: int, shot: int, query: int, seed: int) -> None:
    labels = labels_of(sizes)
    tasks = Balanced(way, shot, query).tasks(labels, seed).block(0)
    assert tasks.support.shape == (BLOCK, way * shot)
    assert tasks.query.shape == (BLOCK, way * query)
    for classes, support, support_labels, samples, query_labels in zip(
        tasks.classes, tasks.support, tasks.support_labels, tasks.query, tasks.query_labels, strict=True
    ):
        drawn = torch.cat([support, samples]).tolist()
        assert len(set(drawn)) == len(drawn)  # no sample twice, so support and query are disjoint
        assert len(set(classes.tolist())) == way
        assert torch.equal(labels[support], classes[support_labels])
        assert torch.equal(labels[samples], classes[query_labels])
        assert torch.bincount(query_labels, minlength=way).tolist() == [query] * way


def test_task_i_does_not_depend_on_how_many_are_asked_for() -> None:
    sampler = Balanced().tasks(labels_of([20] * 10), seed=4)
    many, few = sampler.first(BLOCK + 40), sampler.first(40)
    assert len(many) == BLOCK + 40
    assert torch.equal(many.query[:40], few.query)
    again = Balanced().tasks(labels_of([20] * 10), seed=4).block(1)
    assert torch.equal(many.support[BLOCK:], again.support[:40])


def test_another_seed_gives_other_tasks_and_queries_are_shuffled() -> None:
    labels = labels_of([20] * 10)
    first, second = (Balanced().tasks(labels, seed).first(50) for seed in (0, 1))
    assert not torch.equal(first.query, second.query)
    in_order = torch.arange(5).repeat_interleave(15)
    assert not any(torch.equal(row, in_order) for row in first.query_labels)


def test_classes_and_samples_are_drawn_uniformly() -> None:
    """Every class and every sample within five standard deviations of its expected count."""
    tasks = concatenate([Balanced(4, 1, 3).tasks(labels_of([20] * 8)).block(i) for i in range(20)])
    counts = torch.bincount(tasks.classes.flatten(), minlength=8).double()
    expected = 20 * BLOCK * 4 / 8
    assert bool(((counts - expected).abs() < 5 * (expected * 0.5) ** 0.5).all())
    samples = torch.bincount(tasks.query.flatten(), minlength=160).double()
    expected = 20 * BLOCK * 12 / 160
    assert bool(((samples - expected).abs() < 5 * expected**0.5).all())


def test_tasks_are_written_and_read_back(tmp_path: Path) -> None:
    tasks = Balanced().tasks(labels_of([20] * 6)).first(30)
    tasks.save(tmp_path / "tasks.safetensors")
    back = Tasks.load(tmp_path / "tasks.safetensors")
    for name, field in vars(tasks).items():
        assert field is None or torch.equal(field, getattr(back, name))


def test_a_foreign_or_truncated_task_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.safetensors"
    with pytest.raises(InputError, match=r"tasks\.safetensors"):
        Tasks.load(path)
    path.write_bytes(b"no tasks here")
    with pytest.raises(InputError, match=r"tasks\.safetensors"):
        Tasks.load(path)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("query", lambda x: x - 200, "at least 0"),
        ("query_labels", lambda x: x + 1, r"0\.\.4"),
        ("support_labels", torch.zeros_like, "class without support"),
        ("support", lambda x: x.roll(1, 1), None),
        ("query", lambda x: x[:, :3], "one shape"),
        ("support", lambda x: x.int(), "int64"),
    ],
)
def test_a_task_list_that_makes_no_sense_is_refused(tmp_path: Path, name: str, change: Any, words: str | None) -> None:
    tasks = Balanced().tasks(labels_of([20] * 6)).first(30)
    path = tmp_path / "tasks.safetensors"
    dataclasses.replace(tasks, **{name: change(getattr(tasks, name))}).save(path)
    if words is None:
        Tasks.load(path)
        return
    with pytest.raises(InputError, match=words):
        Tasks.load(path)


def test_a_sample_in_support_and_query_is_refused(tmp_path: Path) -> None:
    tasks = Balanced().tasks(labels_of([20] * 6)).first(30)
    query = tasks.query.clone()
    query[7, 3] = tasks.support[7, 0]
    dataclasses.replace(tasks, query=query).save(tmp_path / "tasks.safetensors")
    with pytest.raises(InputError, match="task 7 has a sample in both"):
        Tasks.load(tmp_path / "tasks.safetensors")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"way": 11}, ["way=11", "10 classes"]),
        ({"shot": 10}, ["shot=10", "25 images", "'ten'", "lower shot or query"]),
        ({"shot": 0}, ["shot", "at least 1"]),
        ({"query": 0}, ["query", "at least 1"]),
    ],
)
def test_impossible_tasks_are_refused(changes: dict[str, int], words: list[str]) -> None:
    labels = labels_of([30] * 9 + [20])
    names = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    with pytest.raises(InputError) as refusal:
        Balanced(**changes).tasks(labels, class_names=names)
    assert all(word in str(refusal.value) for word in words)
