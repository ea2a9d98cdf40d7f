"""Clustering as a stage: tracked, reused, redone where it was interrupted or damaged; and the verb on top of it."""

import json

import numpy as np
import pytest

from runs.cli import main
from runs.config.configs import ClusterConfig, parse
from runs.stages.clustering.stage import clustering, stage_of
from tests.runs.records import copy_results, runs_of

SMALL = ["method=slk_mean_shift", "dataset=spirals", "arms=3", "points=10", "starts=3"]
QUICK = "method=tiny_points:Halves"
SELECTION = "trials: 4\nshare: 0.2\nslk: {weight: [0.5, 0.65]}\n"


@pytest.fixture
def selection(tmp_path):
    path = tmp_path / "few.yaml"
    path.write_text(SELECTION)
    return f"selection={path}"


@pytest.fixture
def asked(selection):
    def make(*more):
        given = {item.partition("=")[0]: item for item in [*SMALL, selection, *more]}
        return parse(ClusterConfig, list(given.values()))

    return make


@pytest.fixture(scope="session")
def clustered_results(results_of, tmp_path_factory):
    """A results folder with the run of `asked()`, and its result. Copy it, do not touch it."""
    path = tmp_path_factory.mktemp("selection") / "few.yaml"
    path.write_text(SELECTION)
    configs = parse(ClusterConfig, [*SMALL, f"selection={path}"])
    return results_of("clustered", lambda *where: clustering(configs, *where))


@pytest.fixture
def clustered(store, clustered_results):
    """The result of `asked()`, which is in the store."""
    root, (result,) = clustered_results
    copy_results(root, store)
    return result


def test_three_answers_from_trials_that_are_made_once(clustered, tracker):
    result = clustered
    trials = result.trials
    assert trials.labels.shape == (5, 30)
    assert trials.given.sum() == 3
    assert trials.tried.sum() == 4
    assert (trials.given & trials.tried).sum() == 2, "two of the trials are of both kinds"
    metrics = trials.metrics()
    assert metrics["acc_hungarian"] == trials.scores["acc_hungarian"][trials.chosen]
    assert metrics["acc_hungarian_mean"] == pytest.approx(trials.scores["acc_hungarian"][trials.given].mean())
    best = max(trials.validation[trials.tried])
    assert trials.validation[trials.selected] == best == metrics["acc_hungarian_validation"]
    assert metrics["nmi_label_selected"] == trials.held_out["nmi"][trials.selected]
    assert trials.confidence.shape == (30,)
    assert (trials.confidence > 1 / 3).all()
    run = tracker.get(result.run_id)
    assert run.data.tags["dataset"] == "spirals"
    assert "method.weight" not in run.data.params, "params are settings that differ from the defaults"
    logged = run.data.metrics
    assert {name: logged[name] for name in metrics} == pytest.approx(metrics)
    assert logged["trials"] == 5


def test_a_trial_is_what_the_estimator_gives_alone(clustered_results):
    _, (result,) = clustered_results
    trials, data = result.trials, result.config.dataset.build().read()
    for i in (0, 4):
        model = result.config.method.build()
        model.set_params(n_clusters=3, random_state=int(trials.seeds[i]))
        model.set_params(**trials.settings[trials.setting[i]]).fit(data.values)
        assert (model.labels_ == trials.labels[i]).all()
        assert model.objective_ == pytest.approx(trials.objective[i])


def test_the_key_heeds_what_can_change_the_result_and_nothing_else(asked, tmp_path):
    def of(*more):
        return stage_of(asked(*more)[0]).key

    assert of() == of(f"results={tmp_path}") == of("device=cpu") == of("weight=0.65")
    other = [of(text) for text in ("seed=1", "starts=4", "n_clusters=2", "weight=0.7", "noise=0.2", "selection=null")]
    assert len({of(), *other}) == 7
    path = tmp_path / "same.yaml"
    path.write_text("slk: {weight: [0.5, 0.65]}\ntrials: 4\nshare: 0.2\n")
    assert of() == of(f"selection={path}"), "a selection counts by what it says"
    path.write_text("slk: {weight: [0.5, 0.66]}\ntrials: 4\nshare: 0.2\n")
    assert of() != of(f"selection={path}")


def test_a_method_without_a_seed_is_tried_once(asked, store, tracker, tmp_path, monkeypatch):
    monkeypatch.setenv("TINY_MARKS", str(tmp_path))
    (result,) = clustering(asked(QUICK), store, tracker)
    assert (tmp_path / "fits").read_text() == "x"
    assert result.trials.given.tolist() == result.trials.tried.tolist() == [True]
    assert result.trials.confidence is None
    assert np.isnan(result.trials.objective).all()
    assert result.trials.metrics()["seconds_optimise"] > 0, "all of a fit whose phases nobody knows"


def test_points_without_classes_have_no_scores(store, tracker, tmp_path, capsys):
    typed = ["dataset=tiny_points:Unlabelled", "method=slk_mean_shift", f"results={store.root}"]
    assert main(["cluster", *typed]) == 2
    assert "n_clusters=3" in capsys.readouterr().err
    assert not runs_of(tracker, "cluster/Unlabelled"), "found out before there is a run"
    assert main(["cluster", *typed, "n_clusters=2"]) == 0
    assert "NMI" not in (shown := capsys.readouterr().out)
    assert "40 points of 3 values, 2 clusters" in shown
    assert main(["cluster", *typed, "n_clusters=2", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["reused"]
    assert not [name for name in found if name.startswith(("nmi", "acc"))]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["dataset=mnits"], "'mnist'"),
        (["dataset=mnist"], "root=FOLDER"),
        (["method=slk"], None),
        (["wieght=1"], "weight"),
        (["starts=0"], "starts"),
        (["n_clusters=2000"], "n_clusters=2000"),
        (["selection=paper"], "papers"),
        (["benchmark=glyphs"], "transduce train"),
        (["method=sklearn.cluster.HDBSCAN"], "method=sklearn.cluster:HDBSCAN"),
        (["method=sklearn.svm:SVC"], "SVC"),
        (["method=sklearn.mixture:GaussianMixture", "n_components=2"], "labels_"),
    ],
)
def test_mistakes_are_told_in_words(typed, words, store, capsys):
    code = main(["cluster", f"results={store.root}", *typed, *(["--dry-run"] if words is None else [])])
    told = capsys.readouterr().err
    assert code == (0 if words is None else 2), told
    assert words is None or words in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("share: 2\n", "share"),
        ("trials: 1\nslk: {weight: [1.0, 2.0]}\n", "2 settings"),
        ("slk: {wieght: [1.0]}\n", "weight"),
    ],
)
def test_mistakes_in_a_selection_are_told_in_words(text, words, tmp_path, store, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert main(["cluster", *SMALL, f"results={store.root}", f"selection={path}"]) == 2
    assert words in capsys.readouterr().err
