"""Evaluation: the same tasks for all, no leak of labels, intervals, audits, paired differences, failures."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from clustering.foundation.errors import InputError
from fsl.benchmarks.closed_splits import ClosedSplitError, check_open, closed
from fsl.benchmarks.glyphs import Glyphs
from fsl.benchmarks.images import open_images
from fsl.episodes import Episodes, Predictions
from fsl.evaluation import Evaluation, evaluate, paired
from fsl.evaluation.audits import best_permutation_accuracy, on_published_graph
from fsl.evaluation.paired import Paired
from fsl.features.bank import FeatureBank
from fsl.features.gathering import gathered
from fsl.samplers.drawn import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.tim_gd import EntropyMin
from fsl.tasks import Tasks
from fsl.transforms import transform_features


def make_bank(seed: int = 0, classes: int = 8, each: int = 25, dim: int = 12) -> FeatureBank:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)
    centres = torch.randn(classes, dim, generator=generator)
    features = (centres[labels] + torch.randn(len(labels), dim, generator=generator)).relu()
    return FeatureBank(features, labels, tuple(f"class {i}" for i in range(classes)), features.mean(0))


STRATEGIES = {"simple": SimpleShot(), "raw": LaplacianShot(transform="UN"), "laplacian": LaplacianShot(weight=2.0)}


@pytest.mark.parametrize("batch", [1, 7, 300])
def test_the_batch_size_changes_nothing_but_ties(batch: int) -> None:
    bank = make_bank()
    sampler = Balanced(query=10).tasks(bank.labels)
    whole = evaluate(STRATEGIES, bank, sampler, 100)
    parts = evaluate(STRATEGIES, bank, sampler, 100, batch=batch)
    for name in STRATEGIES:
        # one query of a task near a tie moves its accuracy by 1/50
        assert float((whole[name].accuracies != parts[name].accuracies).mean()) < 0.02


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
    features = transform_features(bank.features, "CL2N", bank.base_mean)
    for tasks in (
        unequal(Balanced(query=10).tasks(bank.labels).first(30)),
        unequal(Balanced(way=2, query=10).tasks(bank.labels[:75]).first(7)),
    ):
        found = evaluate({"s": SimpleShot()}, bank, tasks, batch=8)["s"]
        predicted = SimpleShot().predict(gathered(features, tasks, "CL2N")).labels
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


FAULTS: dict[str, Callable[[Episodes, torch.Tensor, torch.Tensor], Any]] = {  # words of the message, and what is wrong
    "NaN": lambda _, p, counts: Predictions(p * torch.nan, counts),
    "shape": lambda _, p, counts: Predictions(p[:, 1:], counts),
    "sum to 1": lambda _, p, counts: Predictions(1.1 * p, counts),
    "at least 0": lambda _, p, counts: Predictions(p + torch.tensor([-0.4, 0.4, 0, 0, 0]), counts),
    "iterations": lambda _, p, counts: Predictions(p, counts.float()),
    "integers": lambda _, p, counts: Predictions(p, 20),  # type: ignore[arg-type]
    "changes query": lambda episodes, p, counts: episodes.query.mul_(-1) is None or Predictions(p, counts),
    "changes points": lambda episodes, p, counts: episodes.points.values.mul_(2) is None or Predictions(p, counts),
    "ZeroDivisionError": lambda _, p, counts: Predictions(p / (1 // 0), counts),
    "Tensor": lambda _, p, counts: p,
}


@dataclasses.dataclass(frozen=True)
class Faulty:
    """A strategy that goes wrong in the way it is told to."""

    fault: str
    transform: str = "UN"
    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    def predict(self, episodes: Episodes) -> Any:
        probabilities = torch.full((len(episodes.query), episodes.query_size, episodes.way), 0.2)
        return FAULTS[self.fault](episodes, probabilities, torch.zeros(len(probabilities), dtype=torch.int64))


@pytest.mark.parametrize(("fault", "inference"), [*((fault, False) for fault in FAULTS), ("changes query", True)])
def test_a_faulty_strategy_is_named_with_its_fault(fault: str, inference: bool) -> None:
    bank = make_bank()
    with (
        torch.inference_mode(inference),
        pytest.raises((InputError, RuntimeError), match="strategy mine: .*" + fault.replace(" ", " .*")),
    ):
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


@settings(deadline=None, max_examples=20)
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


@pytest.mark.parametrize("some", [False, True])
def test_per_true_class_one_episode_at_a_time(some: bool) -> None:
    bank = make_bank()
    tasks = Balanced(5, 2, 6).tasks(bank.labels, 3).first(6)
    tasks = unequal(tasks) if some else tasks
    found = evaluate(STRATEGIES, bank, tasks, batch=4, audits=["per_true_class"])
    for name, strategy in STRATEGIES.items():
        for i in range(len(tasks)):
            valid = torch.ones(30, dtype=torch.bool) if tasks.query_mask is None else tasks.query_mask[i]
            right = 0
            for label in tasks.query_labels[i][valid].unique():
                queries = tasks.query[i][valid & (tasks.query_labels[i] == label)]
                episodes = Episodes(
                    bank.features[tasks.support[i]][None],
                    tasks.support_labels[i][None],
                    bank.features[queries][None],
                    5,
                    base_mean=bank.base_mean,
                )
                right += int((strategy.predict(episodes).labels == label).sum())
            assert float(found[name].audits["per_true_class"][i]) == pytest.approx(right / int(valid.sum()))


@pytest.mark.parametrize("audits", [["best_permutation"], ["best_permutation", "per_true_class"]])
def test_audits_are_beside_the_accuracy_and_change_nothing_of_it(audits: list[str]) -> None:
    bank = make_bank()
    tasks = unequal(Balanced(5, 2, 6).tasks(bank.labels).first(60))
    audited = evaluate(STRATEGIES, bank, tasks, audits=audits)
    plain = evaluate(STRATEGIES, bank, tasks)
    for name in STRATEGIES:
        assert np.array_equal(audited[name].accuracies, plain[name].accuracies)
        assert list(audited[name].audits) == audits
        assert not plain[name].audits
        assert bool((audited[name].audits["best_permutation"] >= audited[name].accuracies - 1e-12).all())


def test_the_published_graph_counts_the_point_itself_once() -> None:
    strategy = LaplacianShot(n_neighbors=3, graph="mutual")
    assert on_published_graph("mine", strategy) == LaplacianShot(n_neighbors=2, graph="directed")
    published = LaplacianShot.as_published()
    assert on_published_graph("mine", published) == published
    with pytest.raises(InputError, match="n_neighbors=2 or more"):
        on_published_graph("mine", LaplacianShot(n_neighbors=1))


ACCURACIES = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 30), st.just(3)), elements=st.integers(0, 15).map(lambda right: right / 15)
)


def correlated(units: int = 400, seed: int = 0) -> paired.Matrix:
    """Three strategies on tasks that are hard or easy for all of them; the second is better by 0.02."""
    random = np.random.default_rng(seed)
    hardness = random.normal(0.7, 0.1, (units, 1))
    return np.asarray(hardness + random.normal([0, 0.02, 0], [0.03, 0.03, 0.06], (units, 3)))


def test_the_interval_is_that_of_scipys_paired_bootstrap() -> None:
    values = correlated()
    found = Paired([values]).difference(1, 0)
    expected = scipy.stats.bootstrap(
        (values[:, 1], values[:, 0]),
        lambda a, b, axis: (a - b).mean(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=9_999,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert found.low == pytest.approx(expected.low, abs=1e-4)  # both are random
    assert found.high == pytest.approx(expected.high, abs=1e-4)
    assert found.excludes_zero
    apart = 1.96 * math.hypot(values[:, 1].std(), values[:, 0].std()) / math.sqrt(len(values))
    assert found.high - found.low < apart, "what tasks have in common is no part of it"


@settings(deadline=None, max_examples=25)
@given(values=ACCURACIES)
def test_what_holds_of_any_accuracies(values: paired.Matrix) -> None:
    compared = Paired([values], resamples=199)
    for first, second in ((0, 1), (1, 2), (2, 2)):
        there, back = compared.difference(first, second), compared.difference(second, first)
        units = values[:, first] - values[:, second]
        assert there.mean == pytest.approx(units.mean())
        assert there.mean == pytest.approx(-back.mean)
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
        assert (there.better, there.equal, there.worse) == pytest.approx((back.worse, back.equal, back.better))
        assert there.better == pytest.approx((values[:, first] > values[:, second]).mean())
        assert there.better + there.equal + there.worse == pytest.approx(1)
        assert units.min() - 1e-12 <= there.low <= there.high <= units.max() + 1e-12
    same = compared.difference(2, 2)
    assert (same.mean, same.low, same.high, same.equal, same.excludes_zero) == (0, 0, 0, 1, False)
    total = compared.difference(0, 1).mean + compared.difference(1, 2).mean
    assert compared.difference(0, 2).mean == pytest.approx(total)


def test_over_seeds_tasks_are_resampled_within_each() -> None:
    one, two = correlated(300, 1), correlated(300, 2)
    alone = [Paired([values]).difference(1, 0) for values in (one, two)]
    both = Paired([one, two]).difference(1, 0)
    expected = math.hypot(*((d.high - d.low) / 2 for d in alone)) / 2
    assert (both.high - both.low) / 2 == pytest.approx(expected, rel=0.05)


def test_wrong_shapes_are_refused() -> None:
    for wrong in ([], [np.zeros((0, 2))], [np.zeros(4)], [np.zeros((4, 2)), np.zeros((4, 3))]):
        with pytest.raises(InputError, match="units, strategies"):
            Paired(wrong)


def test_features_and_images_of_a_closed_split_are_refused(tmp_path):
    bank = FeatureBank(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]), ("a", "b"), provenance={"split": "novel"})
    bank.save(tmp_path / "bank.safetensors")
    with closed("novel"), pytest.raises(ClosedSplitError, match="novel"):
        FeatureBank.load(tmp_path / "bank.safetensors")
    with closed("validation"):
        FeatureBank.load(tmp_path / "bank.safetensors")
    with closed("novel"), pytest.raises(ClosedSplitError):
        open_images(Glyphs(), "novel", tmp_path / "cache")
    assert not (tmp_path / "cache").exists(), "nothing was read"


def test_it_opens_again_for_all_threads_at_the_end_of_the_outermost_block_whatever_happened_inside():
    with ThreadPoolExecutor(1) as pool, closed("novel"):
        with pytest.raises(ZeroDivisionError), closed("novel", "base"):
            raise ZeroDivisionError
        check_open("base")
        for elsewhere in (False, True):
            with pytest.raises(ClosedSplitError):
                pool.submit(check_open, "novel").result() if elsewhere else check_open("novel")
    check_open("novel")


def test_evaluation_is_the_same_under_inference_mode() -> None:
    bank, strategies = make_bank(), {**STRATEGIES, "entropy_min": EntropyMin(transform="UN")}  # which trains

    def scores() -> dict[str, np.ndarray]:
        found = evaluate(strategies, bank, Balanced(query=10).tasks(bank.labels), 20)
        return {name: result.accuracies for name, result in found.items()}

    plain = scores()
    with torch.inference_mode():
        inside = scores()
    for name, accuracies in plain.items():
        np.testing.assert_array_equal(inside[name], accuracies)
