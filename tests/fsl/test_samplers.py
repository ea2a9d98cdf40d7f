"""What every sampler must keep to, each sampler against loops, and tasks as files."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.samplers import SAMPLERS
from fsl.samplers.drawn import Balanced, Dirichlet, FewClasses, NamedClasses, Sampler
from fsl.samplers.whole import Batches, File, WholeSplit
from fsl.tasks import BLOCK, Tasks
from tests.oracles import samplers_loops as oracle
from tests.oracles.small_tasks import labels_of

SMALL = {  # what each sampler draws from the classes below; a sampler without an entry is taken with its defaults
    "balanced": {"way": 3, "shot": 2, "query": 4},
    "dirichlet": {"way": 3, "shot": 2, "query": 4, "concentration": 0.7},
    "few_classes": {"way": 4, "shot": 2, "queries": 9, "effective": 2},
    "whole_split": {"support_share": 0.3},
}
SIZES = [9, 17, 11, 8, 20, 13]


@pytest.fixture(params=list(SAMPLERS.table))
def sampler(request: pytest.FixtureRequest, tmp_path: Path) -> Sampler:
    if request.param == "file":
        Balanced(3, 2, 4).tasks(labels_of(SIZES)).first(BLOCK + 60).save(tmp_path / "tasks.safetensors")
        return File(str(tmp_path / "tasks.safetensors"))
    built: Sampler = SAMPLERS.load(request.param)(**SMALL.get(request.param, {}))
    return built


def real(tasks: Tasks, part: str, task: int) -> tuple[list[int], list[int]]:
    """Samples and labels of a task's support or query, without padding."""
    samples, labels = getattr(tasks, part)[task], getattr(tasks, f"{part}_labels")[task]
    mask = getattr(tasks, f"{part}_mask")
    kept = slice(None) if mask is None else mask[task]
    return samples[kept].tolist(), labels[kept].tolist()


def by_position(tasks: Tasks, task: int) -> oracle.Drawn:
    """A task as the oracles give it; the queries of a position in ascending order."""
    parts = []
    for part in ("support", "query"):
        samples, labels = real(tasks, part, task)
        parts.append([[s for s, k in zip(samples, labels, strict=True) if k == c] for c in range(tasks.way)])
    return parts[0], [sorted(row) for row in parts[1]], tasks.classes[task].tolist()


def check(tasks: Tasks, labels: torch.Tensor) -> None:
    """What holds for tasks of any sampler."""
    assert tasks._problem() is None
    for i in range(len(tasks)):
        drawn: list[int] = []
        classes = tasks.classes[i]
        assert len(set(classes.tolist())) == tasks.way
        for part in ("support", "query"):
            samples, positions = real(tasks, part, i)
            assert torch.equal(labels[samples], classes[positions])
            assert samples or not tasks.support.shape[1]  # zero-shot
            drawn += samples
        assert len(set(drawn)) == len(drawn), "no sample twice, so support and query are disjoint"
        if tasks.support.shape[1]:  # not zero-shot
            assert set(real(tasks, "support", i)[1]) == set(range(tasks.way)), "every class has support"


def test_what_a_task_is(sampler: Sampler) -> None:
    labels = labels_of(SIZES)
    check(sampler.tasks(labels, seed=3).block(0), labels)


def test_task_i_does_not_depend_on_how_many_are_asked_for(sampler: Sampler) -> None:
    source = sampler.tasks(labels_of(SIZES), seed=4)
    many = BLOCK + 40 if source.limit is None else min(BLOCK + 40, source.limit)
    few = min(30, many)
    first, second = source.first(many), sampler.tasks(labels_of(SIZES), seed=4).first(few)
    assert (len(first), len(second)) == (many, few)
    for name, field in vars(second).items():
        assert field is None or torch.equal(field, getattr(first, name)[:few])


def test_another_seed_gives_other_tasks_and_queries_are_shuffled(sampler: Sampler) -> None:
    if isinstance(sampler, File):
        return
    first, second = (sampler.tasks(labels_of(SIZES), seed).block(0) for seed in (0, 1))
    assert not torch.equal(first.query, second.query)
    sorted_rows = (first.query_labels.sort(dim=1).values == first.query_labels).all(dim=1)
    assert sorted_rows.double().mean() < 0.2  # by chance, where the queries are few


def test_tasks_of_any_sampler_go_through_a_file(sampler: Sampler, tmp_path: Path) -> None:
    labels = labels_of(SIZES)
    source = sampler.tasks(labels)
    tasks = source.first(source.limit or 40)
    tasks.save(tmp_path / "again.safetensors")
    read = File(str(tmp_path / "again.safetensors")).tasks(labels, seed=9)
    assert read.limit == len(tasks)
    for name, field in vars(read.first(len(tasks))).items():
        original = getattr(tasks, name)
        assert (field is None) == (original is None)
        assert field is None or torch.equal(field, original)


SHOTS, QUERIES = st.integers(1, 3), st.integers(1, 8)
BY_LOOPS: dict[str, tuple[Any, Any, dict[str, st.SearchStrategy[Any]]]] = {  # the sampler, its loops, what they draw
    "balanced": (Balanced, oracle.balanced, {"shot": SHOTS, "query": st.integers(1, 5)}),
    "dirichlet": (
        Dirichlet,
        oracle.dirichlet,
        {"shot": SHOTS, "query": QUERIES, "concentration": st.sampled_from([0.01, 0.5, 2.0, 50.0])},
    ),
    "few_classes": (
        FewClasses,
        oracle.few_classes,
        {"shot": SHOTS, "queries": QUERIES, "effective": SHOTS},
    ),
}


@pytest.mark.parametrize("name", BY_LOOPS)
@settings(deadline=None, max_examples=4)  # of 256 tasks each
@given(
    data=st.data(),
    labels=st.lists(st.integers(12, 18), min_size=4, max_size=7).map(labels_of),
    seed=st.integers(0, 99),
    way=st.integers(2, 4),
)
def test_a_block_is_that_of_loops(name: str, data: st.DataObject, labels: torch.Tensor, seed: int, way: int) -> None:
    kind, loops, values = BY_LOOPS[name]
    fields = {key: data.draw(value) for key, value in values.items()}
    if name == "few_classes":
        fields["effective"] = min(fields["effective"], way)
    tasks = kind(way=way, **fields).tasks(labels, seed).block(0)
    expected = loops(labels.numpy(), seed, way, *fields.values(), BLOCK)
    assert len(tasks) == len(expected) == BLOCK
    for i, (support, queries, classes) in enumerate(expected):
        assert by_position(tasks, i) == (support, [sorted(row) for row in queries], classes)


@settings(deadline=None, max_examples=20)
@given(
    sizes=st.lists(st.integers(2, 30), min_size=2, max_size=7),
    share=st.floats(0.01, 0.49),
    seed=st.integers(0, 99),
    support=st.sampled_from(["random", "first"]),
)
def test_the_whole_split(sizes: list[int], share: float, seed: int, support: Literal["random", "first"]) -> None:
    labels = labels_of(sizes, seed)
    source = WholeSplit(share, support).tasks(labels, seed)
    tasks = source.first(1)
    check(tasks, labels)
    assert sorted(torch.cat([tasks.support, tasks.query], dim=1)[0].tolist()) == list(range(len(labels)))
    assert Counter(tasks.support_labels[0].tolist()) == oracle.whole_split(labels.tolist(), share)
    if support == "first":
        shots = oracle.whole_split(labels.tolist(), share)
        firsts = [np.flatnonzero(labels.numpy() == k)[: shots[k]].tolist() for k in range(len(sizes))]
        assert sorted(tasks.support[0].tolist()) == sorted(sample for first in firsts for sample in first)
    with pytest.raises(InputError, match="tasks=1"):
        source.first(2)


NAMES = ("one", "two", "three", "four", "five", "six")


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (lambda: Balanced(way=7), ["way=7", "6 classes"]),
        (lambda: Balanced(shot=6, query=4), ["shot=6", "10 images", "'four'", "has 8", "lower shot or query"]),
        (lambda: Balanced(way=1), ["way", "at least 2"]),
        (lambda: Dirichlet(way=7), ["way=7", "6 classes"]),
        (lambda: Dirichlet(shot=9, query=1), ["shot=9", "'four'", "has 8", "lower shot"]),
        (lambda: Dirichlet(way=3, shot=2, query=8), ["24 queries", "22 images", "lower shot or query"]),
        (lambda: Dirichlet(concentration=0), ["concentration", "above 0"]),
        (lambda: Dirichlet(concentration=-1.0), ["concentration", "above 0"]),
        (lambda: Dirichlet(concentration=float("nan")), ["concentration", "number"]),
        (lambda: FewClasses(way=7), ["way=7", "6 classes"]),
        (lambda: FewClasses(way=4, effective=5), ["effective=5", "way=4"]),
        (lambda: FewClasses(way=4, shot=1, effective=2, queries=16), ["16 queries", "15 images", "raise effective"]),
        (lambda: FewClasses(way=4, shot=9, effective=2, queries=1), ["shot=9", "'four'"]),
        (lambda: WholeSplit(0.0), ["support_share", "above 0"]),
        (lambda: WholeSplit(1.5), ["support_share", "between 0 and 1"]),
        (lambda: WholeSplit(1.0), ["support_share=1", "'one'", "without queries"]),
    ],
)
def test_impossible_tasks_are_refused(sampler, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as refusal:
        sampler().tasks(labels_of(SIZES), class_names=NAMES)
    for word in words:
        assert word in str(refusal.value)


def test_a_file_of_other_samples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.safetensors"
    Balanced(3, 2, 3).tasks(labels_of(SIZES)).first(30).save(path)
    with pytest.raises(InputError, match="image"):
        File(str(path)).tasks(labels_of(SIZES)[:40])
    with pytest.raises(InputError, match="labels"):
        File(str(path)).tasks(labels_of(SIZES, seed=1))
    with pytest.raises(InputError, match="text"):
        File(None)  # type: ignore[arg-type]


@given(seed=st.integers(0, 100), low=st.integers(1, 3), extra=st.integers(0, 2), shot=st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_named_classes(seed: int, low: int, extra: int, shot: int) -> None:
    """All classes are named; the queries are different samples, of no more classes than asked, and not support."""
    labels = labels_of([4, 9, 5, 7, 6], seed)
    tasks = NamedClasses(queries=8, classes_min=low, classes_max=low + extra, shot=shot).tasks(labels, seed).block(0)
    assert tasks.query_mask is not None
    assert tasks.way == 5
    numbers = set()
    for i in range(len(tasks)):
        mask = tasks.query_mask[i]
        query, support = tasks.query[i][mask], tasks.support[i]
        assert torch.equal(labels[query], tasks.query_labels[i][mask])
        assert torch.equal(labels[support], tasks.support_labels[i])
        assert torch.bincount(tasks.support_labels[i], minlength=5).tolist() == [shot] * 5
        assert len(set(query.tolist()) | set(support.tolist())) == len(query) + len(support)
        assert 1 <= len(query) <= 8
        numbers.add(len(set(tasks.query_labels[i][mask].tolist())))
    assert max(numbers) <= low + extra
    assert low == 1 or max(numbers) > 1


@pytest.mark.parametrize("concentration", [0.0, 0.1, 100.0])
def test_batches_of_a_stream(concentration: float) -> None:
    labels = labels_of([30, 50, 41], 3)
    source = Batches(size=16, concentration=concentration).tasks(labels, 1)
    assert source.limit == 8
    tasks = source.first(8)
    assert tasks.query_mask is not None
    assert sorted(tasks.query[tasks.query_mask].tolist()) == list(range(121))
    assert torch.equal(labels[tasks.query][tasks.query_mask], tasks.query_labels[tasks.query_mask])
    order = labels[tasks.query.flatten()[:121]]
    changes = int((order.diff() != 0).sum())
    if concentration == 0:
        assert changes == 2
    else:  # a small concentration keeps classes together
        assert changes < 40 if concentration < 1 else changes > 60


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
        ("query", lambda x: x[:, :3], "the same shape"),
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
    with pytest.raises(InputError, match="task 7"):
        Tasks.load(tmp_path / "tasks.safetensors")
