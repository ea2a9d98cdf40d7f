"""Evaluation: the same tasks for all, no leak of labels, intervals, audits kept apart."""

import dataclasses
import itertools
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.errors import InputError
from fsl.audits import best_permutation_accuracy
from fsl.episodes import Episodes, Predictions
from fsl.evaluation import Evaluation, evaluate
from fsl.features import FeatureBank
from fsl.gathering import GatheredEpisodes
from fsl.samplers.balanced import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot


def make_bank(seed: int = 0, classes: int = 8, each: int = 25, dim: int = 12) -> FeatureBank:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)
    centres = torch.randn(classes, dim, generator=generator)
    features = (centres[labels] + torch.randn(len(labels), dim, generator=generator)).relu()
    return FeatureBank(features, labels, tuple(f"class {i}" for i in range(classes)), features.mean(0))


STRATEGIES = {"simple": SimpleShot(), "raw": SimpleShot(transform="UN"), "laplacian": LaplacianShot()}


def test_the_same_config_gives_equal_accuracies_and_another_seed_other_tasks() -> None:
    bank = make_bank()
    runs = [evaluate(STRATEGIES, bank, Balanced(query=10).tasks(bank.labels, s), 300) for s in (1, 1, 2)]
    for name in STRATEGIES:
        assert torch.equal(runs[0][name].accuracies, runs[1][name].accuracies)
        assert not torch.equal(runs[0][name].accuracies, runs[2][name].accuracies)


@pytest.mark.parametrize("batch", [1, 7, 300])
def test_the_batch_size_changes_nothing_but_ties(batch: int) -> None:
    bank = make_bank()
    sampler = Balanced(query=10).tasks(bank.labels)
    whole = evaluate(STRATEGIES, bank, sampler, 100)
    parts = evaluate(STRATEGIES, bank, sampler, 100, batch=batch)
    for name in STRATEGIES:
        # one query of a task near a tie moves its accuracy by 1/50
        assert float((whole[name].accuracies != parts[name].accuracies).float().mean()) < 0.02


def test_together_or_alone_is_the_same() -> None:
    bank = make_bank()
    sampler = Balanced(query=10).tasks(bank.labels)
    together = evaluate(STRATEGIES, bank, sampler, 80)
    for name, strategy in STRATEGIES.items():
        alone = evaluate({name: strategy}, bank, sampler, 80)[name]
        assert torch.equal(alone.accuracies, together[name].accuracies)


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
        first, second = (GatheredEpisodes(bank.features, t, strategy.transform) for t in (tasks, shuffled))
        assert torch.equal(strategy.predict(first).labels, strategy.predict(second).labels)
    names = set(vars(GatheredEpisodes(bank.features, tasks, "UN"))) | {f.name for f in dataclasses.fields(Episodes)}
    assert not any("query_label" in name for name in names)


def test_mean_and_interval() -> None:
    scores = torch.tensor([0.5, 0.7, 0.6, 0.8], dtype=torch.float64)
    found = Evaluation(scores, torch.zeros(4, dtype=torch.int64), 0.0)
    assert found.accuracy == pytest.approx(0.65)
    assert found.ci95 == pytest.approx(1.96 * 0.0125**0.5 / 2)  # population variance 0.0125


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), way=st.integers(1, 4))
def test_best_permutation_by_trying_all(seed: int, way: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    predicted, labels = (torch.randint(0, way, (3, 14), generator=generator) for _ in range(2))
    mask = torch.arange(14) < 12  # two padded queries
    found = best_permutation_accuracy(predicted, labels, way, mask.expand(3, -1))
    predicted, labels = predicted[:, :12], labels[:, :12]
    for i in range(3):
        best = max(
            float((torch.tensor(order)[predicted[i]] == labels[i]).double().mean())
            for order in itertools.permutations(range(way))
        )
        assert float(found[i]) == pytest.approx(best)


def test_the_audit_is_beside_the_accuracy_and_never_below_it() -> None:
    bank = make_bank()
    sampler = Balanced(query=10).tasks(bank.labels)
    audited = evaluate(STRATEGIES, bank, sampler, 60, audit=True)
    plain = evaluate(STRATEGIES, bank, sampler, 60)
    for name in STRATEGIES:
        assert torch.equal(audited[name].accuracies, plain[name].accuracies)
        best = audited[name].best_permutation
        assert best is not None
        assert bool((best >= audited[name].accuracies - 1e-12).all())
        assert plain[name].best_permutation is None


def test_tasks_of_another_split_are_refused() -> None:
    bank = make_bank()
    tasks = Balanced(query=10).tasks(torch.arange(8).repeat_interleave(40)).first(5)
    with pytest.raises(InputError, match="another split"):
        evaluate(STRATEGIES, bank, tasks)


def test_no_tasks_are_refused() -> None:
    bank = make_bank()
    with pytest.raises(InputError, match="number of tasks"):
        evaluate(STRATEGIES, bank, Balanced(query=10).tasks(bank.labels), 0)


def test_more_tasks_than_the_list_holds_are_refused() -> None:
    bank = make_bank()
    tasks = Balanced(query=10).tasks(bank.labels).first(5)
    with pytest.raises(InputError, match="there are 5"):
        evaluate(STRATEGIES, bank, tasks, 6)


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
        elif self.fault == "changes the bank":
            episodes.bank.zero_()  # type: ignore[attr-defined]
        elif self.fault == "SystemExit":
            raise SystemExit(0)
        elif self.fault == "changes the query":
            episodes.query.mul_(-1)
        elif self.fault == "changes the points":
            episodes.points.values.mul_(2)  # type: ignore[attr-defined]
        elif self.fault == "ZeroDivisionError":
            probabilities /= 1 // 0
        elif self.fault == "Tensor":
            return probabilities  # type: ignore[return-value]
        return Predictions(probabilities, counts)


@pytest.mark.parametrize(
    "fault", ["NaN", "shape", "changes the query", "changes the points", "ZeroDivisionError", "Tensor"]
)
def test_a_faulty_strategy_is_named_with_its_fault(fault: str) -> None:
    bank = make_bank()
    with pytest.raises((InputError, RuntimeError), match=f"strategy mine: .*{fault}"):
        evaluate({"mine": Faulty(fault)}, bank, Balanced(query=10).tasks(bank.labels), 20)  # type: ignore[dict-item]


def test_a_strategy_without_transform_is_named() -> None:
    bank = make_bank()
    for strategy in (object(), Faulty("", transform="XX")):
        with pytest.raises(InputError, match="strategy mine: needs"):
            evaluate({"mine": strategy}, bank, Balanced(query=10).tasks(bank.labels), 20)  # type: ignore[dict-item]


def test_a_strategy_may_transform_for_itself() -> None:
    bank = make_bank()
    tasks = Balanced(query=10).tasks(bank.labels).first(6)
    gathered = GatheredEpisodes(bank.features, tasks, "UN", bank.base_mean)
    expected = Episodes(
        bank.features[tasks.support], tasks.support_labels, bank.features[tasks.query], 5, base_mean=bank.base_mean
    )
    assert torch.equal(gathered.transformed("CL2N").query, expected.transformed("CL2N").query)


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
        ({"query": torch.rand(3, 5, 3)}, "do not agree"),
        ({"query": torch.rand(2, 0, 3)}, "no query"),
        ({"query_mask": torch.tensor([[True] * 5, [False] * 5])}, "task 1 has no query"),
        ({"support": torch.rand(2, 0, 3), "support_labels": torch.zeros(2, 0).long()}, "no support: S is 0"),
        (
            {"support": torch.rand(0, 4, 3), "support_labels": torch.zeros(0, 4).long(), "query": torch.rand(0, 5, 3)},
            "no task: B is 0",
        ),
        ({"way": 0}, "way"),
        ({"way": 3}, "class 2 of task 0 has no support"),
        ({"support_labels": torch.tensor([[0, 0, 1, 2]] * 2)}, r"0\.\.2"),
        ({"base_mean": torch.rand(4)}, r"base_mean must be of shape \(3,\).*\(4,\)"),
        ({"base_mean": torch.rand(2, 3)}, r"base_mean must be of shape \(3,\)"),
        ({"base_mean": torch.tensor([0.0, torch.nan, 0.0])}, "base_mean is NaN"),
        ({"query": np.zeros((2, 5, 3))}, "query must be a torch tensor"),
        ({"query": torch.rand(2, 5, 3).double()}, "all alike"),
        ({"support": torch.rand(2, 4, 3).half(), "query": torch.rand(2, 5, 3).half()}, "float32"),
        ({"support_labels": torch.tensor([[0.0, 0, 1, 1]] * 2)}, "int64"),
        ({"support_mask": torch.ones(2, 3, dtype=torch.bool)}, "support_mask"),
        ({"query_mask": torch.ones(2, 5)}, "query_mask"),
        ({"query": torch.rand(2, 5, 3).index_fill(1, torch.tensor([3]), torch.nan)}, "query features of task 0, row 3"),
        (
            {"support": torch.rand(2, 4, 3).index_fill(1, torch.tensor([1]), torch.inf)},
            "support features of task 0, row 1",
        ),
        ({"query": torch.full((2, 5, 3), 1e20)}, "query features of task 0, row 0.*too large"),
    ],
)
def test_bad_episodes_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Episodes(**{**episode_parts(), **changes})  # type: ignore[arg-type]


def test_centring_needs_a_base_mean() -> None:
    with pytest.raises(InputError, match="base_mean"):
        SimpleShot().predict(Episodes(**episode_parts()))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="went through L2N"):
        Episodes(**episode_parts(), transform="L2N").transformed("CL2N")  # type: ignore[arg-type]
