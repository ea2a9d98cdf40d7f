"""Audits: what each of them measures, beside the accuracy and for any strategies."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.evaluation.audits import best_permutation_accuracy, on_published_graph
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.samplers.drawn import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.paddle import PADDLE
from fsl.strategies.simpleshot import SimpleShot
from fsl.tasks import Tasks
from tests.fsl.test_evaluation import make_bank

STRATEGIES = {"simple": SimpleShot(), "raw": LaplacianShot(transform="UN"), "laplacian": LaplacianShot(weight=2.0)}


def make_tasks(bank: FeatureBank, seed: int, way: int, tasks: int, kept: float) -> Tasks:
    """Tasks whose queries are dropped at random until a share is left, but for one in each task."""
    drawn = Balanced(way, 2, 6).tasks(bank.labels, seed).first(tasks)
    keep = torch.rand(drawn.query.shape, generator=torch.Generator().manual_seed(seed)) < kept
    keep[:, 0] = True
    return dataclasses.replace(drawn, query_mask=None if bool(keep.all()) else keep)


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


@pytest.mark.parametrize("kept", [0.5, 1.0])
def test_per_true_class_one_episode_at_a_time(kept: float) -> None:
    bank = make_bank()
    tasks = make_tasks(bank, 3, 5, 6, kept)
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
    tasks = make_tasks(bank, 0, 5, 60, 0.7)
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


def test_a_strategy_without_a_graph_is_refused_before_anything_is_done() -> None:
    bank = make_bank()
    for strategy in (SimpleShot(), PADDLE()):
        with pytest.raises(InputError, match=r"directed_with_self .*which mine does not"):
            evaluate({"mine": strategy}, bank, Balanced(query=10).tasks(bank.labels), 5, audits=["directed_with_self"])
