"""Evaluation: the same tasks for all, no leak of labels, intervals, classes, failures."""

import dataclasses
import itertools
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes, Predictions
from fsl.evaluation import Evaluation, evaluate
from fsl.features.bank import FeatureBank
from fsl.features.gathering import gathered
from fsl.samplers.drawn import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.tasks import Tasks
from fsl.transforms import transform_features


def make_bank(seed: int = 0, classes: int = 8, each: int = 25, dim: int = 12) -> FeatureBank:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)
    centres = torch.randn(classes, dim, generator=generator)
    features = (centres[labels] + torch.randn(len(labels), dim, generator=generator)).relu()
    return FeatureBank(features, labels, tuple(f"class {i}" for i in range(classes)), features.mean(0))


STRATEGIES = {"simple": SimpleShot(), "raw": SimpleShot(transform="UN"), "laplacian": LaplacianShot()}


@pytest.mark.parametrize("batch", [1, 7, 300])
def test_the_batch_size_changes_nothing_but_ties(batch: int) -> None:
    bank = make_bank()
    sampler = Balanced(query=10).tasks(bank.labels)
    whole = evaluate(STRATEGIES, bank, sampler, 100)
    parts = evaluate(STRATEGIES, bank, sampler, 100, batch=batch)
    for name in STRATEGIES:
        # one query of a task near a tie moves its accuracy by 1/50
        assert float((whole[name].accuracies != parts[name].accuracies).mean()) < 0.02


def test_accuracy_by_hand() -> None:
    bank = make_bank()
    tasks = Balanced(query=10).tasks(bank.labels).first(5)
    found = evaluate({"s": SimpleShot(transform="UN")}, bank, tasks)["s"]
    for i in range(5):
        support, query = bank.features[tasks.support[i]], bank.features[tasks.query[i]]
        nearest = torch.cdist(query, support).argmin(1)  # 1-shot: the nearest support is the nearest mean
        right = (tasks.support_labels[i][nearest] == tasks.query_labels[i]).double().mean()
        assert float(found.accuracies[i]) == pytest.approx(float(right))


def test_shuffled_hidden_labels_change_no_prediction() -> None:
    bank = make_bank()
    tasks = Balanced(query=10).tasks(bank.labels).first(40)
    shuffled = dataclasses.replace(tasks, query_labels=tasks.query_labels.flip(1))
    for strategy in STRATEGIES.values():
        first, second = (gathered(bank.features, t, strategy.transform) for t in (tasks, shuffled))
        assert torch.equal(strategy.predict(first).labels, strategy.predict(second).labels)
    names = set(vars(gathered(bank.features, tasks, "UN"))) | {f.name for f in dataclasses.fields(Episodes)}
    assert not any("query_label" in name for name in names)


def test_a_file_has_all_scores_but_the_time(tmp_path: Path) -> None:
    """The names of the arrays are those of files in the record."""
    bank = make_bank()
    evaluated = evaluate(STRATEGIES, bank, Balanced().tasks(bank.labels), 1, audits=["best_permutation"])
    for name in STRATEGIES:
        evaluated[name].save(tmp_path / "scores.npz")
        loaded = Evaluation.load(tmp_path / "scores.npz")
        for field in ("accuracies", "iterations", "query_right", "trace"):
            np.testing.assert_array_equal(getattr(loaded, field), getattr(evaluated[name], field))
        np.testing.assert_array_equal(loaded.classes.right, evaluated[name].classes.right)
        np.testing.assert_array_equal(loaded.classes.asked, evaluated[name].classes.asked)
        assert loaded.audits == evaluated[name].audits
        assert loaded.class_names == bank.class_names
        assert {**evaluated[name].metrics(), "seconds_per_task": 0} == {**loaded.metrics(), "seconds_per_task": 0}
        with np.load(tmp_path / "scores.npz") as file:
            required = {"accuracies", "iterations", "class_asked", "class_right", "class_names", "query_right"}
            assert set(file) - {"trace"} == required | {"audit_best_permutation"}


def unequal(tasks: Tasks) -> Tasks:
    """The same tasks with some of their queries taken out at random, so that classes differ in theirs."""
    keep = torch.rand(tasks.query.shape, generator=torch.Generator().manual_seed(1)) < 0.6
    return dataclasses.replace(tasks, query_mask=keep | (torch.arange(keep.shape[1]) == 0))


def test_right_answers_by_class() -> None:
    """Counted one query at a time. Tasks of 5 of the 8 classes, and of 3 of them, so that some are never asked."""
    bank = make_bank()
    for tasks in (
        unequal(Balanced(query=10).tasks(bank.labels).first(30)),
        unequal(Balanced(way=2, query=10).tasks(bank.labels[:75]).first(7)),
    ):
        found = evaluate({"s": SimpleShot()}, bank, tasks, batch=8)["s"]
        predicted = SimpleShot().predict(gathered(features_of(bank), tasks, "CL2N")).labels
        asked, right = [0] * 8, [0] * 8
        for i, query in itertools.product(range(len(tasks)), range(tasks.query.shape[1])):
            if tasks.query_mask is not None and tasks.query_mask[i, query]:
                label = int(bank.labels[tasks.query[i, query]])
                asked[label] += 1
                right[label] += int(predicted[i, query] == tasks.query_labels[i, query])
        assert found.classes.asked.tolist() == asked
        assert found.classes.right.tolist() == right
        shares = [r / n for r, n in zip(right, asked, strict=True) if n]
        assert found.classes.mean == pytest.approx(sum(shares) / len(shares))
        assert [bool(np.isnan(share)) for share in found.classes.accuracies] == [n == 0 for n in asked]


def features_of(bank: FeatureBank) -> torch.Tensor:
    return transform_features(bank.features, "CL2N", bank.base_mean)


def test_the_interval_of_one_task_is_over_its_queries() -> None:
    bank = make_bank()
    tasks = unequal(Balanced(way=8, query=15).tasks(bank.labels).first(2))
    one, two = evaluate({"s": SimpleShot()}, bank, tasks[:1])["s"], evaluate({"s": SimpleShot()}, bank, tasks)["s"]
    assert two.query_right is None
    assert one.query_right is not None
    assert one.query_right.mean() == pytest.approx(one.accuracy)
    draws = np.random.default_rng(0).choice(one.query_right, (4000, len(one.query_right))).mean(1)
    assert one.ci95 == pytest.approx(1.96 * draws.std(), rel=0.1)  # what a bootstrap over the queries finds
    # Within each class, for the mean over classes.
    redrawn = np.random.default_rng(0).binomial(one.classes.asked, one.classes.accuracies, (4000, 8))
    assert one.classes.half_width == pytest.approx(1.96 * (redrawn / one.classes.asked).mean(1).std(), rel=0.1)


def test_the_others_go_on_where_a_strategy_fails() -> None:
    bank = make_bank()
    sampler = Balanced(query=10).tasks(bank.labels)
    failures: dict[str, Exception] = {}
    mixed = {"mine": Faulty("NaN"), **STRATEGIES}
    found = evaluate(mixed, bank, sampler, 40, batch=16, audits=["per_true_class"], failures=failures)  # type: ignore[arg-type]
    assert list(found) == list(STRATEGIES)
    assert "strategy mine" in str(failures.pop("mine"))
    assert not failures
    for name, alone in evaluate(STRATEGIES, bank, sampler, 40, batch=16).items():
        assert np.array_equal(found[name].accuracies, alone.accuracies)
    assert evaluate({"mine": Faulty("NaN")}, bank, sampler, 40, batch=4, failures=failures) == {}  # type: ignore[dict-item]


def test_tasks_of_another_split_are_refused() -> None:
    bank = make_bank()
    tasks = Balanced(query=10).tasks(torch.arange(8).repeat_interleave(40)).first(5)
    with pytest.raises(InputError, match="another split"):
        evaluate(STRATEGIES, bank, tasks)


@dataclasses.dataclass(frozen=True)
class Faulty:
    """A strategy that goes wrong in the way it is told to."""

    fault: str
    transform: str = "UN"
    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    def predict(self, episodes: Episodes) -> Predictions:
        probabilities = torch.full((len(episodes.query), episodes.query_size, episodes.way), 0.2)
        counts = torch.zeros(len(probabilities), dtype=torch.int64)
        if self.fault == "NaN":
            probabilities[0, 0] = torch.nan
        elif self.fault == "shape":
            probabilities = probabilities[:, 1:]
        elif self.fault == "sum to 1":
            probabilities[0, 0, 0] = 0.9
        elif self.fault == "at least 0":
            probabilities[0, 0, :2] = torch.tensor([-0.2, 0.6])
        elif self.fault == "iterations":
            counts = counts.float()
        elif self.fault == "integers":
            counts = 20  # type: ignore[assignment]
        elif self.fault == "changes query":
            episodes.query.mul_(-1)
        elif self.fault == "changes points":
            episodes.points.values.mul_(2)  # type: ignore[attr-defined]
        elif self.fault == "ZeroDivisionError":
            probabilities /= 1 // 0
        elif self.fault == "Tensor":
            return probabilities  # type: ignore[return-value]
        return Predictions(probabilities, counts)


@pytest.mark.parametrize(
    "fault",
    [
        *("NaN", "shape", "sum to 1", "at least 0", "iterations", "integers", "changes query", "changes points"),
        *("ZeroDivisionError", "Tensor"),
    ],
)
def test_a_faulty_strategy_is_named_with_its_fault(fault: str) -> None:
    bank = make_bank()
    with pytest.raises((InputError, RuntimeError), match="strategy mine: .*" + fault.replace(" ", " .*")):
        evaluate({"mine": Faulty(fault)}, bank, Balanced(query=10).tasks(bank.labels), 20)  # type: ignore[dict-item]


def episode_parts() -> dict[str, object]:
    return {
        "support": torch.rand(2, 4, 3),
        "support_labels": torch.tensor([[0, 0, 1, 1]] * 2),
        "query": torch.rand(2, 5, 3),
        "way": 2,
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"support": torch.rand(4, 3)}, "leading dimension"),
        ({"query": torch.rand(2, 5, 4)}, "4"),
        ({"query": torch.rand(3, 5, 3)}, r"support must be .*\(3, 4, 3\)"),
        ({"query": torch.rand(2, 0, 3)}, "queries .* is 0"),
        ({"query_mask": torch.tensor([[True] * 5, [False] * 5])}, "task 1"),
        ({"support": torch.rand(2, 0, 3), "support_labels": torch.zeros(2, 0).long()}, "support.* 0"),
        (
            {"support": torch.rand(0, 4, 3), "support_labels": torch.zeros(0, 4).long(), "query": torch.rand(0, 5, 3)},
            "tasks .* is 0",
        ),
        ({"way": 0}, "way"),
        ({"way": 3}, "class 2 of task 0"),
        ({"support_labels": torch.tensor([[0, 0, 1, 2]] * 2)}, r"0\.\.2"),
        ({"base_mean": torch.rand(4)}, r"base_mean .*\(3,\).*\(4,\)"),
        ({"base_mean": torch.rand(2, 3)}, r"base_mean .*\(3,\)"),
        ({"base_mean": torch.tensor([0.0, torch.nan, 0.0])}, "base_mean .*NaN"),
        ({"query": np.zeros((2, 5, 3))}, "query .*tensor"),
        ({"query": torch.rand(2, 5, 3).double()}, "all be float32, or all float64"),
        ({"support": torch.rand(2, 4, 3).half(), "query": torch.rand(2, 5, 3).half()}, "float32"),
        ({"support_labels": torch.tensor([[0.0, 0, 1, 1]] * 2)}, "int64"),
        ({"support_mask": torch.ones(2, 3, dtype=torch.bool)}, "support_mask"),
        ({"query_mask": torch.ones(2, 5)}, "query_mask"),
        ({"query": torch.rand(2, 5, 3).index_fill(1, torch.tensor([3]), torch.nan)}, "query .*task 0, row 3"),
        (
            {"support": torch.rand(2, 4, 3).index_fill(1, torch.tensor([1]), torch.inf)},
            "support .*task 0, row 1",
        ),
        ({"query": torch.full((2, 5, 3), 1e20)}, "query .*task 0, row 0"),
    ],
)
def test_bad_episodes_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Episodes(**{**episode_parts(), **changes})  # type: ignore[arg-type]
