"""Fair clustering as a stage: a path of weights is one run, tracked, reused, redone; and the verb on top of it."""

import json

import numpy as np
import pytest

from fairness.datasets import DATASETS
from runs.cli import main
from runs.config import FairConfig, parse
from runs.fair_results import PATH, TradeOff
from runs.fairness_stage import Job, fair_clustering, plan
from tests.runs.records import runs_of

SMALL = ["dataset=synthetic", "fairness_weight=0,60,500", "n_init=1"]


@pytest.fixture
def asked():
    def make(*more):
        given = {item.partition("=")[0]: item for item in [*SMALL, *more]}
        return parse(FairConfig, list(given.values()))

    return make


@pytest.fixture
def one(store, tracker):
    def run(configs, **options):
        results, failed = fair_clustering(configs, store, tracker, **options)
        assert not failed
        return results

    return run


def test_a_path_of_weights_is_one_run_and_what_the_estimator_gives(asked, one, tracker):
    (result,) = one(asked())
    found, data = result.found, DATASETS.load("synthetic")().read()
    assert found.weights.tolist() == [0, 60, 500]
    assert found.labels.shape == (3, 400)
    assert found.group_counts.shape == (3, 2, 2)
    (run,) = runs_of(tracker, "fair/synthetic")
    steps = {name: tracker.client.get_metric_history(run.info.run_id, name) for name in ("objective", "fairness_error")}
    for name, points in steps.items():
        assert [point.step for point in points] == [0, 1, 2]
        assert [point.value for point in points] == pytest.approx(getattr(found, name))
    assert run.data.metrics["best_fairness_weight"] == found.weights[found.chosen] == 500
    assert run.data.params["fairness_weight"] == "[0.0, 60.0, 500.0]"
    from clustering.protocol import random_state

    method = result.config.method.build().set_params(n_clusters=2, random_state=random_state(0, 0))
    for step, model in enumerate(method.path(data.values, [0, 60, 500], sensitive_features=data.sensitive)):
        np.testing.assert_array_equal(model.labels_, found.labels[step])
        np.testing.assert_array_equal(model.group_counts_, found.group_counts[step])
        assert model.objective_ == pytest.approx(found.objective[step])
        rows = found.history_step == step
        assert [update.objective for update in model.history_] == pytest.approx(found.history_objective[rows])


def test_the_price_is_that_of_the_unfair_solution_whether_it_is_asked_for_or_not(asked, one):
    (with_it,), (without,) = one(asked()), one(asked("fairness_weight=60,500"))
    np.testing.assert_allclose(without.found.price, with_it.found.price[1:])
    (rival,) = one(asked("method=fair_lloyd"))
    assert rival.found.unfair_objective == pytest.approx(with_it.found.objective[0])
    assert np.isnan(rival.found.weights).all()


def test_what_is_finished_is_used_again(asked, one, tracker, notes):
    (first,) = one(asked())
    (again,) = one(asked("fairness_weight=500,0,60.0,60", "n_clusters=2"), progress=notes)
    assert again.reused
    assert again.run_id == first.run_id
    for name in TradeOff.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(first.found, name), getattr(again.found, name))
    (forced,) = one(asked(), force=True)
    assert forced.run_id != first.run_id
    np.testing.assert_array_equal(forced.found.labels, first.found.labels)
    assert [step.state for step in plan(asked("seed=0,1"), tracker).steps] == ["cached", "to do"]


def test_identity_heeds_what_can_change_the_result_and_nothing_else(asked, tmp_path):
    def of(*more):
        return Job.of(asked(*more)[0]).identity

    assert of() == of(f"results={tmp_path}") == of("device=cpu") == of("n_clusters=2")
    other = [of(text) for text in ("seed=1", "n_clusters=3", "fairness_weight=0,60", "n_init=2", "preprocess=null")]
    assert len({of(), *other}) == 6
    assert of("method=bera") == of("method=bera", "fairness_weight=1"), "it has no weight"


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_result_is_made_again(asked, one, store, notes, damage):
    (first,) = one(asked())
    path = store.artifacts / "fair" / "synthetic" / first.run_id / "artifacts" / PATH
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:1000])
    (again,) = one(asked(), progress=notes)
    assert not again.reused
    assert "no longer whole" in notes


def test_several_methods_stand_side_by_side(store, capsys):
    typed = ["fair", *SMALL, f"results={store.root}", "method=fair_kmeans,bera", "delta=0.1,0.5"]
    assert main(typed) == 0
    shown = capsys.readouterr().out
    assert shown.count("fair_kmeans") == 3
    assert shown.count("bera") == 2
    assert main([*typed, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(record["weights"]) for record in found] == [3, 1, 1]
    assert all(record["reused"] for record in found)
