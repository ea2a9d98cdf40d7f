"""Tasks as files: what is written is read back, what makes no sense is refused. How they are drawn: test_samplers."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.samplers.drawn import Balanced
from fsl.tasks import Tasks
from tests.oracles.small_tasks import labels_of


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
