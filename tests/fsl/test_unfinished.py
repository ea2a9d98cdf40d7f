"""Evaluations that were interrupted go on, and come to what uninterrupted ones come to."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from fsl.episodes import Episodes, Predictions
from fsl.evaluation import Evaluation, evaluate
from fsl.evaluation.unfinished import Unfinished
from fsl.samplers.balanced import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from tests.fsl.test_evaluation import make_bank

BANK = make_bank()
TASKS = Balanced(query=10).tasks(BANK.labels)


class Counting(LaplacianShot):
    """LaplacianShot that counts its tasks, and is interrupted before it has had more than `most` of them."""

    tasks: ClassVar[int] = 0
    most: ClassVar[int] = 1_000_000

    def predict(self, episodes: Episodes) -> Predictions:
        if type(self).tasks + len(episodes.support_labels) > type(self).most:
            raise KeyboardInterrupt
        type(self).tasks += len(episodes.support_labels)
        return super().predict(episodes)


@pytest.fixture(autouse=True)
def one_core() -> None:
    """Else batches that are under way count, too."""
    torch.set_num_threads(1)


def run(path: Path | None, *, batch: int = 4, most: int = 1_000_000, about: str = "these") -> Evaluation:
    Counting.tasks, Counting.most = 0, most
    unfinished = None if path is None else Unfinished(path, about)
    audits = ["best_permutation"]
    return evaluate({"one": Counting()}, BANK, TASKS, 30, batch=batch, audits=audits, unfinished=unfinished)["one"]


def assert_same(found: Evaluation, expected: Evaluation) -> None:
    assert np.array_equal(found.accuracies, expected.accuracies)
    assert np.array_equal(found.iterations, expected.iterations)
    assert (found.classes.right == expected.classes.right).all()
    assert np.array_equal(found.audits["best_permutation"], expected.audits["best_permutation"])
    assert found.trace is not None
    assert expected.trace is not None
    np.testing.assert_allclose(found.trace, expected.trace, rtol=1.3e-6, atol=1e-5)
    assert found.seconds_per_task > 0


@pytest.mark.parametrize("most", [3, 4, 17, 29])
def test_it_goes_on_after_the_last_task(tmp_path: Path, most: int) -> None:
    whole = run(None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "file", most=most)
    assert_same(run(tmp_path / "file"), whole)
    assert Counting.tasks == 30 - most // 4 * 4
    run(tmp_path / "file")
    assert Counting.tasks == 0


def test_it_may_be_interrupted_again_and_go_on_in_other_batches(tmp_path: Path) -> None:
    whole = run(None, batch=5)
    for most, batch in ((8, 4), (13, 5)):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "file", most=most, batch=batch)
    found = run(tmp_path / "file", batch=5)
    assert Counting.tasks == 15
    assert np.array_equal(found.accuracies, whole.accuracies)
    assert np.array_equal(found.iterations, whole.iterations)


@pytest.mark.parametrize("damage", ["other features", "cut short", "gone"])
def test_what_is_of_no_use_is_passed_over(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "file"
    with pytest.raises(KeyboardInterrupt):
        run(path, most=20)
    if damage == "cut short":
        path.write_bytes(path.read_bytes()[:200])
    if damage == "gone":
        path.unlink()
    assert_same(run(path, about="others" if damage == "other features" else "these"), run(None))
    run(path, about="others" if damage == "other features" else "these")
    assert Counting.tasks == 0
