"""A strategy that needs images, as a run: beside those on features, on the same tasks; interrupted, and going on."""

import numpy as np
import pytest
import torch

from runs.config.configs import EvaluateConfig, parse
from runs.stages.banks import features, pictures
from runs.stages.lineage import Lineage
from runs.stages.pipeline import evaluation
from runs.stages.stage import Workspace


@pytest.fixture
def tuned(tiny_arguments):
    """One of each on six tasks, of seconds."""
    typed = [
        item.replace("learning_rate=", "training.learning_rate=") for item in tiny_arguments if "tasks=" not in item
    ]
    strategies = ["strategy=transductive_fine_tuning,simpleshot", "max_iter=2"]
    return parse(EvaluateConfig, [*typed, *strategies, "validation_tasks=20", "tasks=6"])


@pytest.fixture
def store(trained):
    return trained


def test_it_stands_beside_strategies_on_features(tuned, store, tracker, notes):
    first, second = evaluation(tuned, store, tracker, progress=notes)
    assert first.key != second.key
    assert first.class_names == second.class_names
    assert first.classes.asked.tolist() == second.classes.asked.tolist(), "the same tasks"
    assert first.iterations.tolist() == [2] * 6
    assert first.seconds_per_task > 0
    assert second.seconds_per_task > 0
    assert np.isfinite(first.accuracies).all()
    assert [result.reused for result in evaluation(tuned, store, tracker)] == [True, True]
    assert not (store.cache("evaluation") / f"{first.key}.partial").exists()


@pytest.fixture(params=[None, 0.5])
def shown(request, tuned):
    """Ways to show pictures to a network."""
    return tuned[0].replace(tasks=5, strategy=tuned[0].strategy.at({"max_iter": 0}), crop_pct=request.param)


def test_it_sees_the_pictures_that_features_are_made_of(shown, tuned, store, tracker):
    bank, seen = features(shown, "novel", store, tracker), pictures(shown, Lineage.of(shown), Workspace(store, tracker))
    rows = torch.arange(0, len(bank.features), 7)
    with torch.inference_mode():
        found = seen.network(seen.shown(rows, torch.device("cpu")))
    torch.testing.assert_close(found, bank.features[rows], rtol=1e-3, atol=1e-4)
    prototypes = shown.replace(strategy=tuned[1].strategy.at({"transform": "L2N"}))
    untuned, nearest = evaluation([shown, prototypes], store, tracker)
    np.testing.assert_allclose(untuned.accuracies, nearest.accuracies)
